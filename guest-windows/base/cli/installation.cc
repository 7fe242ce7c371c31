// SPDX-License-Identifier: Apache-2.0
// installation.cc: on Windows all of an installation is in one folder. A program finds our libraries there if that is
// the folder which Windows looks through behind the program's own (SetDllDirectory, which a started program inherits),
// and in PATH, which comes behind Windows' own folders.
#include "base/cli/installation.h"

#include <fmt/format.h>
#include <windows.h>

#include <array>
#include <filesystem>

#include "base/cli/exit_status.h"

namespace barcuda {
namespace {

// As a program's own main() is to get it: CommandLineToArgvW's documentation has the rules.
std::wstring quoted(const std::wstring& word) {
    if (!word.empty() && word.find_first_of(L" \t\n\v\"") == std::wstring::npos) return word;
    std::wstring all = L"\"";
    std::size_t backslashes = 0;
    for (const wchar_t c : word) {
        if (c == L'"') all.append(backslashes + 1, L'\\');
        backslashes = c == L'\\' ? backslashes + 1 : 0;
        all += c;
    }
    all.append(backslashes, L'\\');
    return all + L'"';
}

std::wstring wide(const std::string& text) {
    std::wstring all(text.size(), L'\0');
    all.resize(static_cast<std::size_t>(MultiByteToWideChar(CP_ACP, 0, text.data(), static_cast<int>(text.size()),
                                                            all.data(), static_cast<int>(all.size()))));
    return all;
}

// The console's keys are the started program's to answer.
BOOL WINAPI keep_running(DWORD) { return TRUE; }

}  // namespace

Installation installation() {
    std::array<wchar_t, 4096> file{};
    GetModuleFileNameW(nullptr, file.data(), file.size());
    const std::filesystem::path folder = std::filesystem::path(file.data()).parent_path();
    Installation here;
    here.library = (folder / "nvcuda.dll").string();
    here.links = folder.string();
    here.command = (folder / "barcuda.exe").string();
    here.nvml = (folder / "nvml.dll").string();
    return here;
}

std::string check(const Installation& here) {
    std::error_code none;
    for (const std::string& file : {here.library, here.nvml})
        if (!std::filesystem::exists(file, none))
            return file + " is missing: copy all of build/lib/barcuda-windows (docs/windows.md)";
    return {};
}

void put_in_front(const Installation& here, bool, bool) {
    const std::wstring folder = wide(here.links);
    std::wstring path(32767, L'\0');  // the longest that Windows allows
    path.resize(GetEnvironmentVariableW(L"PATH", path.data(), static_cast<DWORD>(path.size())));
    SetEnvironmentVariableW(L"PATH", (folder + (path.empty() ? L"" : L";") + path).c_str());
    SetDllDirectoryW(folder.c_str());
}

int become(const char* command, const std::vector<std::string>& words) {
    std::wstring line;
    for (const std::string& word : words) line += (line.empty() ? L"" : L" ") + quoted(wide(word));
    STARTUPINFOW how{};
    how.cb = sizeof how;
    PROCESS_INFORMATION started{};
    SetConsoleCtrlHandler(keep_running, TRUE);
    if (!CreateProcessW(nullptr, line.data(), nullptr, nullptr, TRUE, 0, nullptr, nullptr, &how, &started)) {
        const DWORD code = GetLastError();
        fmt::print(stderr, "barcuda {}: cannot run {}: Windows error {}\n", command, words[0], code);
        return code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND ? not_found : cannot_execute;
    }
    WaitForSingleObject(started.hProcess, INFINITE);
    DWORD status = cannot_run;
    GetExitCodeProcess(started.hProcess, &status);
    CloseHandle(started.hThread);
    CloseHandle(started.hProcess);
    return static_cast<int>(status);
}

}  // namespace barcuda
