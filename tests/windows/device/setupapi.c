/* SPDX-License-Identifier: Apache-2.0
 * setupapi.c: ivshmem devices for a program that finds this setupapi.dll beside itself, as virtio-win's driver gives
 * them by its public header and source. No driver can be tried under Wine, so this one is a part of the process; what
 * it does between processes, it does by files.
 *
 * IVSHMEM names the devices, with semicolons between them: FILE,ADDRESS[,ERROR]. FILE is the memory, ADDRESS where "the
 * kernel" puts it, in hex, and ERROR a Windows error with which each request is refused.
 *
 * A device's handle is a client of a pipe, whose server is the driver: a request goes through it, so that a duplicate
 * of the handle is the same file object, and the server sees when the last one is closed. The process that has mapped
 * the device has FILE.owner open for itself alone, which ends with the process.
 */
#define _WIN32_WINNT 0x0a00
#define _SETUPAPI_ /* the functions are this file's */
#include <windows.h>

#include <setupapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <winioctl.h>

#define ERROR_DEVICE_ALREADY_ATTACHED 548 /* mingw's headers lack it */
enum { size_request = 0x801, map_request = 0x802, unmap_request = 0x803, most_devices = 8 };
static const GUID interface_of_ivshmem = {0xdf576976, 0x569d, 0x4672, {0x95, 0xa0, 0xf5, 0x7e, 0x4e, 0xa0, 0xb2, 0x10}};
static const wchar_t path_of_device[] = L"\\\\?\\ivshmem#", id_of_device[] = L"PCI\\VEN_1AF4&DEV_1110&SUBSYS_11001AF4";

/* As the driver's header has them. */
typedef struct {
    UINT8 cache;
} Wanted;
typedef struct {
    UINT16 peer;
    UINT64 bytes;
    void* memory;
    UINT16 vectors;
} Mapped;

typedef struct {
    DWORD code, in_bytes, out_bytes;
    Wanted in;
} Request;
typedef struct {
    DWORD error, bytes;
    union {
        UINT64 size;
        Mapped mapped;
    } out;
} Answer;

static struct {
    char file[MAX_PATH];
    ULONGLONG address;
    unsigned error;
} devices[most_devices];

static unsigned count(void) {
    static unsigned found;
    const char* at = getenv("IVSHMEM");
    if (found) return found;
    for (; at && *at && found < most_devices; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL)
        if (sscanf(at, "%259[^,;],%llx,%u", devices[found].file, &devices[found].address, &devices[found].error) >= 2)
            ++found;
    return found;
}

/* ---- the driver -------------------------------------------------------------------------------------------------- */
typedef struct {
    HANDLE pipe, owner; /* of FILE.owner; NULL: this file object has not mapped the device */
    unsigned number;
    void* memory;
} Session;

static DWORD map(Session* s, const Request* asked, Answer* said) {
    char owner[MAX_PATH + 8];
    HANDLE file, mapping;
    LARGE_INTEGER size;
    snprintf(owner, sizeof owner, "%s.owner", devices[s->number].file);
    if (asked->in_bytes != sizeof(Wanted) || asked->out_bytes != sizeof(Mapped)) return ERROR_INVALID_USER_BUFFER;
    if (asked->in.cache > 2) return ERROR_INVALID_PARAMETER;
    s->owner = CreateFileA(owner, GENERIC_WRITE, 0, NULL, OPEN_ALWAYS, 0, NULL);
    if (s->owner == INVALID_HANDLE_VALUE) {
        s->owner = NULL;
        return ERROR_DEVICE_ALREADY_ATTACHED;
    }
    file = CreateFileA(devices[s->number].file, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL,
                       OPEN_EXISTING, 0, NULL);
    mapping = CreateFileMappingA(file, NULL, PAGE_READWRITE, 0, 0, NULL);
    s->memory =
        MapViewOfFileEx(mapping, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, 0, (void*)(ULONG_PTR)devices[s->number].address);
    if (!s->memory || !GetFileSizeEx(file, &size)) {
        CloseHandle(s->owner);
        s->owner = NULL;
        return ERROR_IO_DEVICE;
    }
    CloseHandle(mapping);
    CloseHandle(file);
    said->out.mapped.bytes = (UINT64)size.QuadPart;
    said->out.mapped.memory = s->memory;
    said->bytes = sizeof(Mapped);
    return 0;
}

static DWORD unmap(Session* s) {
    if (!s->owner) return ERROR_INVALID_HANDLE;
    UnmapViewOfFile(s->memory);
    CloseHandle(s->owner);
    s->owner = NULL;
    return 0;
}

static DWORD answer(Session* s, const Request* asked, Answer* said) {
    WIN32_FILE_ATTRIBUTE_DATA file;
    if (devices[s->number].error) return devices[s->number].error;
    switch (asked->code) {
        case CTL_CODE(FILE_DEVICE_UNKNOWN, map_request, METHOD_BUFFERED, FILE_ANY_ACCESS): return map(s, asked, said);
        case CTL_CODE(FILE_DEVICE_UNKNOWN, unmap_request, METHOD_BUFFERED, FILE_ANY_ACCESS): return unmap(s);
        case CTL_CODE(FILE_DEVICE_UNKNOWN, size_request, METHOD_BUFFERED, FILE_ANY_ACCESS):
            if (asked->out_bytes != sizeof(UINT64)) return ERROR_INVALID_USER_BUFFER;
            GetFileAttributesExA(devices[s->number].file, GetFileExInfoStandard, &file);
            said->out.size = (UINT64)file.nFileSizeHigh << 32 | file.nFileSizeLow;
            said->bytes = sizeof(UINT64);
            return 0;
        default: return ERROR_INVALID_FUNCTION;
    }
}

/* Until the file object's last handle is closed. */
static DWORD WINAPI serve(void* session) {
    Session* const s = session;
    Request asked;
    DWORD bytes;
    while (ReadFile(s->pipe, &asked, sizeof asked, &bytes, NULL)) {
        Answer said = {0};
        said.error = answer(s, &asked, &said);
        WriteFile(s->pipe, &said, sizeof said, &bytes, NULL);
    }
    unmap(s);
    CloseHandle(s->pipe);
    free(s);
    return 0;
}

/* ---- what the caller has in the place of the system's functions -------------------------------------------------- */
static HANDLE WINAPI open_file(const wchar_t* path, DWORD access, DWORD share, SECURITY_ATTRIBUTES* security, DWORD how,
                               DWORD flags, HANDLE other) {
    static LONG sessions;
    wchar_t name[80];
    Session* s;
    const size_t length = wcslen(path_of_device);
    if (wcsncmp(path, path_of_device, length)) return CreateFileW(path, access, share, security, how, flags, other);
    s = calloc(1, sizeof *s);
    s->number = (unsigned)_wtoi(path + length);
    _snwprintf(name, 80, L"\\\\.\\pipe\\ivshmem-%lu-%ld", GetCurrentProcessId(), InterlockedIncrement(&sessions));
    s->pipe =
        CreateNamedPipeW(name, PIPE_ACCESS_DUPLEX, PIPE_TYPE_MESSAGE | PIPE_READMODE_MESSAGE, 1, 4096, 4096, 0, NULL);
    other = CreateFileW(name, access, 0, NULL, OPEN_EXISTING, 0, NULL);
    CloseHandle(CreateThread(NULL, 0, serve, s, 0, NULL));
    return other;
}

static BOOL WINAPI ask_device(HANDLE device, DWORD code, void* in, DWORD in_bytes, void* out, DWORD out_bytes,
                              DWORD* got, OVERLAPPED* none) {
    Request asked = {code, in_bytes, out_bytes, {0}};
    Answer said;
    DWORD bytes;
    if (GetFileType(device) != FILE_TYPE_PIPE)
        return DeviceIoControl(device, code, in, in_bytes, out, out_bytes, got, none);
    if (in_bytes == sizeof asked.in) memcpy(&asked.in, in, in_bytes);
    if (!WriteFile(device, &asked, sizeof asked, &bytes, NULL) || !ReadFile(device, &said, sizeof said, &bytes, NULL))
        return FALSE;
    if (said.error == 0 && said.bytes) memcpy(out, &said.out, said.bytes);
    *got = said.bytes;
    SetLastError(said.error);
    return said.error == 0;
}

static void replace(IMAGE_THUNK_DATA64* place, void* function) {
    DWORD before;
    VirtualProtect(place, sizeof *place, PAGE_READWRITE, &before);
    place->u1.Function = (ULONG_PTR)function;
    VirtualProtect(place, sizeof *place, before, &before);
}

/* The imports of the module that asks for devices, as the PE format has them. */
static void patch(const void* caller) {
    HMODULE module;
    char* base;
    const IMAGE_NT_HEADERS64* headers;
    const IMAGE_IMPORT_DESCRIPTOR* from;
    GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, caller,
                       &module);
    base = (char*)module;
    headers = (const void*)(base + ((const IMAGE_DOS_HEADER*)(const void*)base)->e_lfanew);
    from = (const void*)(base + headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT].VirtualAddress);
    for (; from->Name; ++from) {
        const IMAGE_THUNK_DATA64* named = (const void*)(base + from->OriginalFirstThunk);
        IMAGE_THUNK_DATA64* bound = (void*)(base + from->FirstThunk);
        for (; named->u1.AddressOfData; ++named, ++bound) {
            const char* const name =
                IMAGE_SNAP_BY_ORDINAL64(named->u1.Ordinal) ? "" : base + named->u1.AddressOfData + 2;
            if (strcmp(name, "CreateFileW") == 0) replace(bound, open_file);
            if (strcmp(name, "DeviceIoControl") == 0) replace(bound, ask_device);
        }
    }
}

/* ---- setupapi ---------------------------------------------------------------------------------------------------- */
__declspec(dllexport) HDEVINFO WINAPI
    SetupDiGetClassDevsW(const GUID* kind, const wchar_t* bus, HWND none, DWORD flags) {
    (void)kind, (void)bus, (void)none, (void)flags;
    patch(__builtin_return_address(0));
    return (HDEVINFO)devices;
}
__declspec(dllexport) BOOL WINAPI SetupDiDestroyDeviceInfoList(HDEVINFO list) { return list == (HDEVINFO)devices; }

__declspec(dllexport) BOOL WINAPI SetupDiEnumDeviceInfo(HDEVINFO list, DWORD number, SP_DEVINFO_DATA* found) {
    (void)list;
    found->DevInst = number;
    return number < count();
}

__declspec(dllexport) BOOL WINAPI
    SetupDiGetDeviceInstanceIdW(HDEVINFO list, SP_DEVINFO_DATA* found, wchar_t* id, DWORD room, DWORD* needs) {
    (void)list, (void)found, (void)needs;
    return _snwprintf(id, room, L"%ls", id_of_device) > 0;
}

__declspec(dllexport) BOOL WINAPI SetupDiEnumDeviceInterfaces(HDEVINFO list, SP_DEVINFO_DATA* none, const GUID* kind,
                                                              DWORD number, SP_DEVICE_INTERFACE_DATA* found) {
    (void)list, (void)none;
    if (memcmp(kind, &interface_of_ivshmem, sizeof *kind) || found->cbSize != sizeof *found || number >= count())
        return FALSE;
    found->Reserved = number;
    return TRUE;
}

__declspec(dllexport) BOOL WINAPI SetupDiGetDeviceInterfaceDetailW(HDEVINFO list, SP_DEVICE_INTERFACE_DATA* found,
                                                                   SP_DEVICE_INTERFACE_DETAIL_DATA_W* detail,
                                                                   DWORD room, DWORD* needs, SP_DEVINFO_DATA* none) {
    (void)list, (void)needs, (void)none;
    if (detail->cbSize != sizeof *detail) return FALSE;
    return _snwprintf(detail->DevicePath, (room - sizeof *detail) / sizeof(wchar_t), L"%ls%u", path_of_device,
                      (unsigned)found->Reserved) > 0;
}
