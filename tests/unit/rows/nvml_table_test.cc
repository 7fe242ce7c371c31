// SPDX-License-Identifier: Apache-2.0
// nvml_table_test: shm-device/cuda/nvml.h and rows/nvml.h against NVIDIA's <nvml.h>, where the toolkit has that package
// (cuda-nvml-dev), and what can be said without it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "shm-device/rows/nvml_rows.h"

#if __has_include(<nvml.h>)
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <nvml.h>
#define HAVE_NVML 1
#endif

namespace barcuda::nvml {
namespace {

const char* const names[] = {
#define X(name, ...) #name,
    BARCUDA_NVML_ROWS(X) BARCUDA_NVML_GUEST(X) BARCUDA_NVML_WRITES(X) BARCUDA_NVML_REFUSED(X)
#undef X
};

TEST(NvmlTable, NamesEachFunctionOnce) {
    std::set<std::string> seen;
    for (const char* name : names) EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_GT(seen.size(), 400u);
}

TEST(NvmlTable, GivesEachRowAnIdentityOfItsOwn) {
    std::set<std::uint64_t> seen;
#define X(name, ...) EXPECT_TRUE(seen.insert(RowOf<Question::name>::identity).second) << #name;
    BARCUDA_NVML_ROWS(X)
#undef X
}

// What would change a GPU is in the list of what is refused with "no permission".
TEST(NvmlTable, AsksTheHostNothingThatChangesIt) {
    for (const char* name : question_names)
        EXPECT_TRUE(std::regex_search(name, std::regex("^nvml(Device|System)(Get|OnSameBoard)"))) << name;
}

TEST(NvmlTable, FindsEveryFieldAtItsOwnPlace) {
    kind::fields::Stored stored;
    EXPECT_EQ(std::get<0>(kind::fields::ask(nullptr, 0, stored)), static_cast<int>(count_fields()));
    for (std::size_t i = 0; i < count_fields(); ++i) {
        EXPECT_EQ(place_of_field(stored.values[i].field, stored.values[i].scope), i) << stored.values[i].field;
        EXPECT_EQ(stored.values[i].status, success) << "NVIDIA's NVML would not look it up";
    }
    EXPECT_EQ(place_of_field(1, 0), count_fields());
    EXPECT_EQ(place_of_field(165, links), count_fields());
    EXPECT_EQ(place_of_field(186, 7), place_of_field(186, 0)) << "the power of a GPU has no links";
}

#ifdef HAVE_NVML

// By size, and by what pointers point at: NVML's enumerations are numbers here.
template <class Ours, class Theirs> constexpr bool alike() {
    if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
        using O = std::remove_cv_t<std::remove_pointer_t<Ours>>;
        using T = std::remove_cv_t<std::remove_pointer_t<Theirs>>;
        if constexpr (std::is_same_v<O, Handle> || std::is_void_v<O>) return true;  // versions: below
        else return sizeof(O) == sizeof(T) || (std::is_same_v<O, Version80> && std::is_same_v<T, char>);
    } else {
        return !std::is_pointer_v<Ours> && !std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs);
    }
}
template <class Ours, class Theirs> struct Compare;
template <class... O, class R, class... T> struct Compare<Status(O...), R(T...)> {
    static constexpr bool same() {
        if constexpr (sizeof...(O) != sizeof...(T)) return false;
        else return (alike<O, T>() && ...);
    }
};

TEST(NvmlTable, HasNvidiasPrototypes) {
#define X(name, ...) EXPECT_TRUE((Compare<Function<Question::name>, decltype(::name)>::same())) << #name;
    BARCUDA_NVML_ROWS(X)
#undef X
}

#define FIELD(ours, our_field, theirs, their_field)                                              \
    EXPECT_EQ(offsetof(ours, our_field), offsetof(theirs, their_field)) << #ours "." #our_field; \
    EXPECT_EQ(sizeof(ours::our_field), sizeof(theirs::their_field)) << #ours "." #our_field

TEST(NvmlTable, HasNvidiasStructures) {
    EXPECT_EQ(sizeof(PciInfo), sizeof(nvmlPciInfo_t));
    FIELD(PciInfo, domain, nvmlPciInfo_t, domain);
    FIELD(PciInfo, subsystem_id, nvmlPciInfo_t, pciSubSystemId);
    FIELD(PciInfo, bus_id, nvmlPciInfo_t, busId);
    FIELD(Memory, free, nvmlMemory_t, free);
    FIELD(Memory, used, nvmlMemory_t, used);
    FIELD(MemoryV2, reserved, nvmlMemory_v2_t, reserved);
    FIELD(MemoryV2, used, nvmlMemory_v2_t, used);
    EXPECT_EQ(sizeof(ProcessInfo), sizeof(nvmlProcessInfo_t));
    FIELD(ProcessInfo, used_memory, nvmlProcessInfo_t, usedGpuMemory);
    FIELD(ProcessInfo, compute_instance, nvmlProcessInfo_t, computeInstanceId);
    EXPECT_EQ(sizeof(ProcessInfoV1), sizeof(nvmlProcessInfo_v1_t));
    EXPECT_EQ(sizeof(ProcessUtilization), sizeof(nvmlProcessUtilizationSample_t));
    FIELD(ProcessUtilization, timestamp, nvmlProcessUtilizationSample_t, timeStamp);
    FIELD(ProcessUtilization, decoder, nvmlProcessUtilizationSample_t, decUtil);
    EXPECT_EQ(sizeof(FieldValue), sizeof(nvmlFieldValue_t));
    FIELD(FieldValue, scope, nvmlFieldValue_t, scopeId);
    FIELD(FieldValue, status, nvmlFieldValue_t, nvmlReturn);
    FIELD(FieldValue, value, nvmlFieldValue_t, value);
    EXPECT_EQ(sizeof(Uuid), sizeof(nvmlUUID_t));
    EXPECT_EQ(sizeof(TemperatureV1), sizeof(nvmlTemperature_t));
    FIELD(FabricV3, clique, nvmlGpuFabricInfo_v3_t, cliqueId);
    FIELD(FabricV3, health, nvmlGpuFabricInfo_v3_t, healthSummary);
}

TEST(NvmlTable, HasNvidiasVersions) {
    EXPECT_EQ((version_of<MemoryV2, 2>), nvmlMemory_v2);
    EXPECT_EQ((version_of<PciInfoExt, 1>), nvmlPciInfoExt_v1);
    EXPECT_EQ((version_of<TemperatureV1, 1>), nvmlTemperature_v1);
    EXPECT_EQ((version_of<FabricV2, 2>), nvmlGpuFabricInfo_v2);
    EXPECT_EQ((version_of<FabricV3, 3>), nvmlGpuFabricInfo_v3);
    EXPECT_EQ((version_of<Platform, 1>), nvmlPlatformInfo_v1);
    EXPECT_EQ((version_of<Platform, 2>), nvmlPlatformInfo_v2);
    EXPECT_EQ((version_of<ConfidentialSettings, 1>), nvmlSystemConfComputeSettings_v1);
    EXPECT_EQ((version_of<Uuid, 1>), nvmlUUID_v1);
}

TEST(NvmlTable, HasNvidiasStatuses) {
    EXPECT_EQ(int{invalid_argument}, NVML_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(int{not_supported}, NVML_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(int{no_permission}, NVML_ERROR_NO_PERMISSION);
    EXPECT_EQ(int{insufficient_size}, NVML_ERROR_INSUFFICIENT_SIZE);
    EXPECT_EQ(int{driver_not_loaded}, NVML_ERROR_DRIVER_NOT_LOADED);
    EXPECT_EQ(int{timeout}, NVML_ERROR_TIMEOUT);
    EXPECT_EQ(int{function_not_found}, NVML_ERROR_FUNCTION_NOT_FOUND);
    EXPECT_EQ(int{gpu_is_lost}, NVML_ERROR_GPU_IS_LOST);
    EXPECT_EQ(int{version_mismatch}, NVML_ERROR_LIB_RM_VERSION_MISMATCH);
    EXPECT_EQ(int{argument_version_mismatch}, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

TEST(NvmlTable, NamesAllOfNvidiasFunctions) {
    const char* home = std::getenv("CUDA_HOME");
    const std::string header = std::string(home ? home : "/usr/local/cuda") + "/include/nvml.h";
    std::ifstream file(header);
    if (!file) GTEST_SKIP() << header << " is not the nvml.h that this was compiled with";
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::regex declared(R"(DECLDIR\s+\*?\s*(nvml\w+)\s*\()");
    const std::set<std::string> have(std::begin(names), std::end(names));
    std::size_t count = 0;
    for (std::sregex_iterator i(text.begin(), text.end(), declared), end; i != end; ++i, ++count)
        EXPECT_TRUE(have.contains((*i)[1])) << (*i)[1];
    EXPECT_GT(count, 300u) << header;
}

#else
TEST(NvmlTable, HasNvidiasPrototypes) { GTEST_SKIP() << "the toolkit here has no nvml.h (cuda-nvml-dev)"; }
#endif

}  // namespace
}  // namespace barcuda::nvml
