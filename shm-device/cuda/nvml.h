// SPDX-License-Identifier: Apache-2.0
// nvml.h: what NVML's functions take and give, in types of our own that have the same bytes: the toolkit's <nvml.h> is
// a package that many machines lack (tests/unit/rows/nvml_table_test.cc compares the two where there is one).
#pragma once
#include <cstddef>
#include <cstdint>

namespace barcuda::nvml {

enum Status : int {
    success = 0,
    uninitialized = 1,
    invalid_argument = 2,
    not_supported = 3,
    no_permission = 4,
    not_found = 6,
    insufficient_size = 7,
    driver_not_loaded = 9,
    timeout = 10,
    library_not_found = 12,
    function_not_found = 13,
    gpu_is_lost = 15,
    version_mismatch = 18,  // of library and driver
    argument_version_mismatch = 25,
    unknown = 999
};

using Device = struct Handle*;  // nvmlDevice_t

// A structure of several versions begins with the one that the caller means.
template <class T, unsigned number> constexpr unsigned version_of = sizeof(T) | number << 24;

struct PciInfo {  // the functions before _v3 know what is before bus_id
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
struct PciInfoExt {
    unsigned version, domain, bus, device, device_id, subsystem_id, base_class, sub_class;
    char bus_id[32];
};
struct Utilization {
    unsigned gpu, memory;
};
struct Memory {
    unsigned long long total, free, used;
};
struct MemoryV2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
struct ProcessInfoV1 {
    unsigned pid;
    unsigned long long used_memory;
};
struct ProcessInfo {
    unsigned pid;
    unsigned long long used_memory;
    unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long value_not_available = ~0ull;
struct ProcessUtilization {
    unsigned pid;
    unsigned long long timestamp;
    unsigned sm, memory, encoder, decoder;
};
struct FieldValue {
    unsigned field, scope;
    long long timestamp, latency;
    int type;
    Status status;
    unsigned long long value;  // a union: of 8 bytes at most
};
struct TemperatureV1 {
    unsigned version, sensor;
    int temperature;
};
struct Uuid {
    unsigned version, type;
    union {
        char text[41];
        unsigned char bytes[16];
    };
    enum : unsigned { ascii = 1, binary = 2 };
};
struct RowRemapperHistogram {
    unsigned max, high, partial, low, none;
};
struct DeviceAttributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mib;
};
struct ViolationTime {
    unsigned long long reference, violation;
};
struct ConfidentialState {
    unsigned environment, feature, devtools;
};
struct ConfidentialSettings {
    unsigned version, environment, feature, devtools, multi_gpu;
};
struct ConfidentialCapabilities {
    unsigned cpu, gpus;
};
struct Fabric {
    unsigned char cluster[16];
    Status status;
    unsigned clique;
    unsigned char state;
};
struct FabricV2 {
    unsigned version;
    unsigned char cluster[16];
    Status status;
    unsigned clique;
    unsigned char state;
    unsigned health_mask;
};
struct FabricV3 {
    unsigned version;
    unsigned char cluster[16];
    Status status;
    unsigned clique;
    unsigned char state;
    unsigned health_mask;
    unsigned char health;
};
struct Platform {  // of both versions: they differ in what the bytes mean
    unsigned version;
    unsigned char guids[32], numbers[5];
};
struct Version80 {  // text of functions that take no length
    char text[80];
};

constexpr unsigned links = 18;  // of NVLink, a GPU: Hopper's; more are "invalid argument"
constexpr unsigned all_links = ~0u;

// The fields that are asked for, each with as many scopes (links) as said; `all` too where a sum over links is one.
struct FieldRange {
    unsigned first, last, scopes;
    bool all;
};
inline constexpr FieldRange field_ranges[] = {
    {82, 83, 1, false},        // temperature of the memory, energy
    {84, 91, 1, false},        // NVLink: speeds, how many
    {94, 95, 1, false},        // PCIe replays
    {132, 137, 1, false},      // NVLink: more speeds
    {138, 141, links, true},   // NVLink: throughput
    {164, 165, links, false},  // NVLink: speed, state
    {170, 170, 1, false},      // C2C: how many links
    {171, 172, 10, false},     // C2C: state, bandwidth
    {185, 198, 1, false},      // power, limits of temperature, PCIe's counters
};
constexpr std::size_t count_fields() {
    std::size_t count = 0;
    for (const FieldRange& r : field_ranges) count += (r.last - r.first + 1) * (r.scopes + r.all);
    return count;
}
// Its place among all that are asked for; count_fields(): it is none of them.
constexpr std::size_t place_of_field(unsigned field, unsigned scope) {
    std::size_t place = 0;
    for (const FieldRange& r : field_ranges) {
        if (field >= r.first && field <= r.last) {
            if (scope < r.scopes) return place + (field - r.first) * (r.scopes + r.all) + scope;
            // A field without links takes any scope.
            if (r.scopes == 1 && !r.all) return place + (field - r.first);
            if (r.all && scope == all_links) return place + (field - r.first) * (r.scopes + r.all) + r.scopes;
            return count_fields();
        }
        place += (r.last - r.first + 1) * (r.scopes + r.all);
    }
    return place;
}

}  // namespace barcuda::nvml
