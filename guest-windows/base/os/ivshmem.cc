// SPDX-License-Identifier: Apache-2.0
#include "base/os/ivshmem.h"

#include <windows.h>

#include <setupapi.h>
#include <winioctl.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cwchar>
#include <iterator>

namespace barcuda::os::ivshmem {
namespace {

// {df576976-569d-4672-95a0-f57e4ea0b210}
constexpr GUID device_interface{0xdf576976, 0x569d, 0x4672, {0x95, 0xa0, 0xf5, 0x7e, 0x4e, 0xa0, 0xb2, 0x10}};
constexpr DWORD map_request = CTL_CODE(FILE_DEVICE_UNKNOWN, 0x802, METHOD_BUFFERED, FILE_ANY_ACCESS);
constexpr DWORD unmap_request = CTL_CODE(FILE_DEVICE_UNKNOWN, 0x803, METHOD_BUFFERED, FILE_ANY_ACCESS);

// What the driver is asked, and what it answers.
struct Wanted {
    UINT8 cache = 1;  // 0: none; 1: write-back, as other memory has; 2: write-combining
};
struct Mapped {
    UINT16 peer;
    UINT64 bytes;
    void* memory;
    UINT16 vectors;
};
static_assert(sizeof(Mapped) == 32 && offsetof(Mapped, memory) == 16);

constexpr DWORD already_attached = 548;  // ERROR_DEVICE_ALREADY_ATTACHED, which mingw's headers lack

constinit thread_local unsigned failed_with = 0;

struct Devices {
    HDEVINFO list;
    Devices()
        : list(SetupDiGetClassDevsW(&device_interface, nullptr, nullptr, DIGCF_PRESENT | DIGCF_DEVICEINTERFACE)) {}
    explicit Devices(const wchar_t* bus)
        : list(SetupDiGetClassDevsW(nullptr, bus, nullptr, DIGCF_PRESENT | DIGCF_ALLCLASSES)) {}
    Devices(const Devices&) = delete;
    ~Devices() {
        if (list != INVALID_HANDLE_VALUE) SetupDiDestroyDeviceInfoList(list);
    }
    bool find(unsigned number, SP_DEVICE_INTERFACE_DATA& found) const {
        found = {};
        found.cbSize = sizeof found;
        return list != INVALID_HANDLE_VALUE &&
               SetupDiEnumDeviceInterfaces(list, nullptr, &device_interface, number, &found);
    }
};

// The driver's NTSTATUS as Windows turns it into an error.
int meaning(DWORD error) noexcept {
    switch (error) {
        case already_attached: return EBUSY;           // STATUS_DEVICE_ALREADY_ATTACHED: it is mapped
        case ERROR_NOT_READY: return EAGAIN;           // STATUS_DEVICE_NOT_READY: QEMU waits for the memory
        case ERROR_INVALID_FUNCTION:                   // STATUS_INVALID_DEVICE_REQUEST
        case ERROR_INVALID_USER_BUFFER:                // STATUS_INVALID_BUFFER_SIZE, STATUS_INVALID_USER_BUFFER
        case ERROR_INVALID_PARAMETER: return ENOTSUP;  // STATUS_INVALID_PARAMETER: the cache mode
        case ERROR_IO_DEVICE:                          // STATUS_DRIVER_INTERNAL_ERROR: Windows has not mapped it
        case ERROR_NOT_ENOUGH_MEMORY:
        case ERROR_NO_SYSTEM_RESOURCES: return ENOMEM;
        default: return EIO;
    }
}

}  // namespace

unsigned present() noexcept {
    constexpr wchar_t name[] = L"PCI\\VEN_1AF4&DEV_1110";
    const Devices devices(L"PCI");
    unsigned count = 0;
    SP_DEVINFO_DATA found{};
    found.cbSize = sizeof found;
    for (DWORD i = 0; devices.list != INVALID_HANDLE_VALUE && SetupDiEnumDeviceInfo(devices.list, i, &found); ++i) {
        std::array<wchar_t, 256> id{};
        if (SetupDiGetDeviceInstanceIdW(devices.list, &found, id.data(), id.size() - 1, nullptr))
            count += std::wcsncmp(id.data(), name, std::size(name) - 1) == 0;
    }
    return count;
}

unsigned count() noexcept {
    const Devices devices;
    unsigned count = 0;
    for (SP_DEVICE_INTERFACE_DATA found; devices.find(count, found);) ++count;
    return count;
}

int open(unsigned number, Handle& device) noexcept {
    const Devices devices;
    SP_DEVICE_INTERFACE_DATA found;
    if (!devices.find(number, found)) return ENODEV;
    alignas(SP_DEVICE_INTERFACE_DETAIL_DATA_W) std::array<std::byte, 2048> room{};
    auto* const detail = reinterpret_cast<SP_DEVICE_INTERFACE_DETAIL_DATA_W*>(room.data());
    detail->cbSize = sizeof *detail;
    HANDLE opened = INVALID_HANDLE_VALUE;
    if (SetupDiGetDeviceInterfaceDetailW(devices.list, &found, detail, room.size(), nullptr, nullptr))
        opened = CreateFileW(detail->DevicePath, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                             nullptr, OPEN_EXISTING, 0, nullptr);
    if (opened == INVALID_HANDLE_VALUE) {
        failed_with = GetLastError();
        return failed_with == ERROR_ACCESS_DENIED ? EACCES : EIO;
    }
    device = opened;
    return 0;
}

int map(Handle device, char*& base, std::uint64_t& bytes) noexcept {
    Wanted wanted;
    Mapped mapped{};
    DWORD got = 0;
    if (!DeviceIoControl(device, map_request, &wanted, sizeof wanted, &mapped, sizeof mapped, &got, nullptr)) {
        failed_with = GetLastError();
        return meaning(failed_with);
    }
    failed_with = ERROR_INVALID_DATA;
    if (got != sizeof mapped || !mapped.memory) return EIO;
    base = static_cast<char*>(mapped.memory);
    bytes = mapped.bytes;
    return 0;
}

unsigned last_error() noexcept { return failed_with; }

void unmap(Handle device) noexcept {
    DWORD got = 0;
    DeviceIoControl(device, unmap_request, nullptr, 0, nullptr, 0, &got, nullptr);
}

}  // namespace barcuda::os::ivshmem
