// SPDX-License-Identifier: Apache-2.0
// nvml.h (rows): every function of NVML, once: the questions that the host is asked, those that the guest's library
// answers by itself or by other rows, and those that are refused. nvml_rows.h says what a row means.
#pragma once

// clang-format off
//                            how often, then the parameters
#define BARCUDA_NVML_ROWS(X)                                                                                      \
    /* ---- the system */                                                                                         \
    X(nvmlSystemGetDriverVersion,              once, text<80>)                                                    \
    X(nvmlSystemGetNVMLVersion,                once, text<80>)                                                    \
    X(nvmlSystemGetCudaDriverVersion,          once, out<int>)                                                    \
    X(nvmlSystemGetCudaDriverVersion_v2,       once, out<int>)                                                    \
    X(nvmlSystemGetConfComputeState,           once, out<ConfidentialState>)                                      \
    X(nvmlSystemGetConfComputeSettings,        once, versions<version<ConfidentialSettings, 1>>)                  \
    X(nvmlSystemGetConfComputeCapabilities,    once, out<ConfidentialCapabilities>)                               \
    X(nvmlSystemGetConfComputeGpusReadyState,  each, out<unsigned>)                                               \
    /* ---- what a device is */                                                                                   \
    X(nvmlDeviceGetName,                       once, device, text<96>)                                            \
    X(nvmlDeviceGetUUID,                       once, device, text<96>)                                            \
    X(nvmlDeviceGetSerial,                     once, device, text<32>)                                            \
    X(nvmlDeviceGetBrand,                      once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetArchitecture,               once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetCudaComputeCapability,      once, device, out<int>, out<int>)                                  \
    X(nvmlDeviceGetAttributes_v2,              once, device, out<DeviceAttributes>)                               \
    X(nvmlDeviceGetNumGpuCores,                once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetMemoryBusWidth,             once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetBoardId,                    once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetBoardPartNumber,            once, device, text<80>)                                            \
    X(nvmlDeviceGetMultiGpuBoard,              once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetVbiosVersion,               once, device, text<32>)                                            \
    X(nvmlDeviceGetInforomImageVersion,        once, device, text<16>)                                            \
    X(nvmlDeviceGetGspFirmwareVersion,         once, device, out<Version80>)                                      \
    X(nvmlDeviceGetGspFirmwareMode,            once, device, out<unsigned>, out<unsigned>)                        \
    X(nvmlDeviceGetBusType,                    once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetPciInfo_v3,                 once, device, out<PciInfo>)                                        \
    X(nvmlDeviceGetPciInfoExt,                 once, device, versions<version<PciInfoExt, 1>>)                    \
    X(nvmlDeviceGetMaxPcieLinkGeneration,      once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetGpuMaxPcieLinkGeneration,   once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetMaxPcieLinkWidth,           once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetPcieLinkMaxSpeed,           once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetModuleId,                   once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetMaxMigDeviceCount,          once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetPlatformInfo,               once, device, versions<version<Platform, 1>, version<Platform, 2>>)\
    /* ---- what it does with its memory and its time */                                                          \
    X(nvmlDeviceGetMemoryInfo,                 each, device, out<Memory>)                                         \
    X(nvmlDeviceGetMemoryInfo_v2,              each, device, versions<version<MemoryV2, 2>>)                      \
    X(nvmlDeviceGetBAR1MemoryInfo,             each, device, out<Memory>)                                         \
    X(nvmlDeviceGetConfComputeProtectedMemoryUsage, each, device, out<Memory>)                                    \
    X(nvmlDeviceGetUtilizationRates,           each, device, out<Utilization>)                                    \
    X(nvmlDeviceGetEncoderUtilization,         each, device, out<unsigned>, out<unsigned>)                        \
    X(nvmlDeviceGetDecoderUtilization,         each, device, out<unsigned>, out<unsigned>)                        \
    X(nvmlDeviceGetJpgUtilization,             each, device, out<unsigned>, out<unsigned>)                        \
    X(nvmlDeviceGetOfaUtilization,             each, device, out<unsigned>, out<unsigned>)                        \
    X(nvmlDeviceGetComputeMode,                each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetPersistenceMode,            each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetDisplayMode,                each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetDisplayActive,              each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetMigMode,                    each, device, out<unsigned>, out<unsigned>)                        \
    /* ---- clocks, power, temperature */                                                                         \
    X(nvmlDeviceGetClockInfo,                  each, device, key<4>, out<unsigned>)                               \
    X(nvmlDeviceGetMaxClockInfo,               once, device, key<4>, out<unsigned>)                               \
    X(nvmlDeviceGetClock,                      each, device, key<4>, key<4>, out<unsigned>)                       \
    X(nvmlDeviceGetMaxCustomerBoostClock,      once, device, key<4>, out<unsigned>)                               \
    X(nvmlDeviceGetApplicationsClock,          each, device, key<4>, out<unsigned>)                               \
    X(nvmlDeviceGetDefaultApplicationsClock,   once, device, key<4>, out<unsigned>)                               \
    X(nvmlDeviceGetSupportedMemoryClocks,      once, device, list<unsigned, 32>)                                  \
    X(nvmlDeviceGetAdaptiveClockInfoStatus,    once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetAutoBoostedClocksEnabled,   each, device, out<unsigned>, out<unsigned>)                        \
    X(nvmlDeviceGetCurrentClocksThrottleReasons,   each, device, out<unsigned long long>)                         \
    X(nvmlDeviceGetCurrentClocksEventReasons,      each, device, out<unsigned long long>)                         \
    X(nvmlDeviceGetSupportedClocksThrottleReasons, once, device, out<unsigned long long>)                         \
    X(nvmlDeviceGetSupportedClocksEventReasons,    once, device, out<unsigned long long>)                         \
    X(nvmlDeviceGetViolationStatus,            each, device, key<7>, out<ViolationTime>)                          \
    X(nvmlDeviceGetPerformanceState,           each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetPowerState,                 each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetPowerUsage,                 each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetTotalEnergyConsumption,     each, device, out<unsigned long long>)                             \
    X(nvmlDeviceGetPowerManagementMode,        each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetPowerManagementLimit,       each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetEnforcedPowerLimit,         each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetPowerManagementDefaultLimit,     once, device, out<unsigned>)                                  \
    X(nvmlDeviceGetPowerManagementLimitConstraints, once, device, out<unsigned>, out<unsigned>)                   \
    X(nvmlDeviceGetTemperature,                each, device, key<1>, out<unsigned>)                               \
    X(nvmlDeviceGetTemperatureThreshold,       once, device, key<8>, out<unsigned>)                               \
    X(nvmlDeviceGetNumFans,                    once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetFanSpeed,                   each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetFanSpeed_v2,                each, device, key<4>, out<unsigned>)                               \
    /* ---- errors of its memory */                                                                               \
    X(nvmlDeviceGetEccMode,                    each, device, out<unsigned>, out<unsigned>)                        \
    X(nvmlDeviceGetDefaultEccMode,             once, device, out<unsigned>)                                       \
    X(nvmlDeviceGetTotalEccErrors,             each, device, key<2>, key<2>, out<unsigned long long>)             \
    X(nvmlDeviceGetMemoryErrorCounter,         each, device, key<2>, key<2>, key<8>, out<unsigned long long>)     \
    X(nvmlDeviceGetRemappedRows,               each, device, out<unsigned>, out<unsigned>, out<unsigned>, out<unsigned>) \
    X(nvmlDeviceGetRowRemapperHistogram,       each, device, out<RowRemapperHistogram>)                           \
    X(nvmlDeviceGetRetiredPagesPendingStatus,  each, device, out<unsigned>)                                       \
    /* ---- how it is connected */                                                                                \
    X(nvmlDeviceGetCurrPcieLinkGeneration,     each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetCurrPcieLinkWidth,          each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetPcieSpeed,                  each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetPcieReplayCounter,          each, device, out<unsigned>)                                       \
    X(nvmlDeviceGetP2PStatus,                  once, device, peer, key<5>, out<unsigned>)                         \
    X(nvmlDeviceGetTopologyCommonAncestor,     once, device, peer, out<unsigned>)                                 \
    X(nvmlDeviceOnSameBoard,                   once, device, peer, out<int>)                                      \
    X(nvmlDeviceGetNvLinkState,                each, device, key<links>, out<unsigned>)                           \
    X(nvmlDeviceGetNvLinkVersion,              once, device, key<links>, out<unsigned>)                           \
    X(nvmlDeviceGetNvLinkCapability,           once, device, key<links>, key<6>, out<unsigned>)                   \
    X(nvmlDeviceGetNvLinkRemoteDeviceType,     once, device, key<links>, out<unsigned>)                           \
    X(nvmlDeviceGetNvLinkRemotePciInfo_v2,     once, device, key<links>, out<PciInfo>)                            \
    X(nvmlDeviceGetNvLinkErrorCounter,       seldom, device, key<links>, key<5>, out<unsigned long long>)         \
    X(nvmlDeviceGetGpuFabricInfo,              each, device, out<Fabric>)                                         \
    X(nvmlDeviceGetGpuFabricInfoV,             each, device, versions<version<FabricV2, 2>, version<FabricV3, 3>>)\
    X(nvmlDeviceGetFieldValues,                each, device, fields)

// guest-allocator/nvml/guest.cc
#define BARCUDA_NVML_GUEST(X)                                                                              \
    X(nvmlInit) X(nvmlInit_v2) X(nvmlInitWithFlags) X(nvmlShutdown) X(nvmlErrorString)                     \
    X(nvmlSystemGetProcessName)                                                                            \
    X(nvmlDeviceGetCount) X(nvmlDeviceGetCount_v2) X(nvmlDeviceGetIndex)                                   \
    X(nvmlDeviceGetHandleByIndex) X(nvmlDeviceGetHandleByIndex_v2)                                         \
    X(nvmlDeviceGetHandleByUUID) X(nvmlDeviceGetHandleByUUIDV) X(nvmlDeviceGetHandleBySerial)              \
    X(nvmlDeviceGetHandleByPciBusId) X(nvmlDeviceGetHandleByPciBusId_v2)                                   \
    X(nvmlDeviceGetPciInfo) X(nvmlDeviceGetPciInfo_v2) X(nvmlDeviceGetNvLinkRemotePciInfo)                 \
    X(nvmlDeviceGetAttributes) X(nvmlDeviceGetTemperatureV)                   \
    X(nvmlDeviceGetTopologyNearestGpus) X(nvmlDeviceIsMigDeviceHandle)                                     \
    X(nvmlDeviceGetComputeRunningProcesses) X(nvmlDeviceGetComputeRunningProcesses_v2)                     \
    X(nvmlDeviceGetComputeRunningProcesses_v3) X(nvmlDeviceGetGraphicsRunningProcesses)                    \
    X(nvmlDeviceGetGraphicsRunningProcesses_v2) X(nvmlDeviceGetGraphicsRunningProcesses_v3)                \
    X(nvmlDeviceGetMPSComputeRunningProcesses) X(nvmlDeviceGetMPSComputeRunningProcesses_v2)               \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v3) X(nvmlDeviceGetProcessUtilization)

// What would change a GPU that others use too: "no permission", as for users who are not root natively.
#define BARCUDA_NVML_WRITES(X) \
    X(nvmlComputeInstanceDestroy) X(nvmlDeviceClearAccountingPids) X(nvmlDeviceClearEccErrorCounts) \
    X(nvmlDeviceClearFieldValues) X(nvmlDeviceCreateGpuInstance) X(nvmlDeviceCreateGpuInstanceWithPlacement) \
    X(nvmlDeviceDiscoverGpus) X(nvmlDeviceFreezeNvLinkUtilizationCounter) X(nvmlDeviceModifyDrainState) \
    X(nvmlDevicePowerSmoothingActivatePresetProfile) X(nvmlDevicePowerSmoothingSetState) \
    X(nvmlDevicePowerSmoothingUpdatePresetProfileParam) X(nvmlDeviceReadWritePRM_v1) X(nvmlDeviceRemoveGpu) \
    X(nvmlDeviceRemoveGpu_v2) X(nvmlDeviceResetApplicationsClocks) X(nvmlDeviceResetGpuLockedClocks) \
    X(nvmlDeviceResetMemoryLockedClocks) X(nvmlDeviceResetNvLinkErrorCounters) \
    X(nvmlDeviceResetNvLinkUtilizationCounter) X(nvmlDeviceSetAPIRestriction) X(nvmlDeviceSetAccountingMode) \
    X(nvmlDeviceSetApplicationsClocks) X(nvmlDeviceSetAutoBoostedClocksEnabled) X(nvmlDeviceSetClockOffsets) \
    X(nvmlDeviceSetComputeMode) X(nvmlDeviceSetConfComputeUnprotectedMemSize) \
    X(nvmlDeviceSetDefaultAutoBoostedClocksEnabled) X(nvmlDeviceSetDefaultFanSpeed_v2) \
    X(nvmlDeviceSetDramEncryptionMode) X(nvmlDeviceSetDriverModel) X(nvmlDeviceSetEccMode) \
    X(nvmlDeviceSetFanControlPolicy) X(nvmlDeviceSetFanSpeed_v2) X(nvmlDeviceSetGpcClkVfOffset) \
    X(nvmlDeviceSetGpuLockedClocks) X(nvmlDeviceSetGpuOperationMode) X(nvmlDeviceSetHostname_v1) \
    X(nvmlDeviceSetMemClkVfOffset) X(nvmlDeviceSetMemoryLockedClocks) X(nvmlDeviceSetMigMode) \
    X(nvmlDeviceSetNvLinkDeviceLowPowerThreshold) X(nvmlDeviceSetNvLinkUtilizationControl) \
    X(nvmlDeviceSetNvlinkBwMode) X(nvmlDeviceSetPersistenceMode) X(nvmlDeviceSetPowerManagementLimit) \
    X(nvmlDeviceSetPowerManagementLimit_v2) X(nvmlDeviceSetPowerMizerMode_v1) X(nvmlDeviceSetRusdSettings_v1) \
    X(nvmlDeviceSetTemperatureThreshold) X(nvmlDeviceSetVgpuCapabilities) \
    X(nvmlDeviceSetVgpuHeterogeneousMode) X(nvmlDeviceSetVgpuSchedulerState) \
    X(nvmlDeviceSetVgpuSchedulerState_v2) X(nvmlDeviceSetVirtualizationMode) X(nvmlDeviceVgpuForceGspUnload) \
    X(nvmlDeviceWorkloadPowerProfileClearRequestedProfiles) \
    X(nvmlDeviceWorkloadPowerProfileSetRequestedProfiles) X(nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1) \
    X(nvmlGpmSetStreamingEnabled) X(nvmlGpuInstanceCreateComputeInstance) \
    X(nvmlGpuInstanceCreateComputeInstanceWithPlacement) X(nvmlGpuInstanceDestroy) \
    X(nvmlGpuInstanceSetVgpuHeterogeneousMode) X(nvmlGpuInstanceSetVgpuSchedulerState) \
    X(nvmlGpuInstanceSetVgpuSchedulerState_v2) X(nvmlSetVgpuVersion) X(nvmlSystemSetConfComputeGpusReadyState) \
    X(nvmlSystemSetConfComputeKeyRotationThresholdInfo) X(nvmlSystemSetNvlinkBwMode) X(nvmlUnitSetLedState) \
    X(nvmlVgpuInstanceClearAccountingPids) X(nvmlVgpuInstanceSetEncoderCapacity)

// "Not supported", as natively where a GPU lacks it: MIG, virtual GPUs, units (S-class), events, performance counters
// (GPM), accounting, CPU affinity (the CPUs would be the host's), and what samples for tens of milliseconds
// (nvmlDeviceGetPcieThroughput).
#define BARCUDA_NVML_REFUSED(X) \
    X(nvmlComputeInstanceGetInfo) X(nvmlComputeInstanceGetInfo_v2) X(nvmlDeviceClearCpuAffinity) \
    X(nvmlDeviceGetAPIRestriction) X(nvmlDeviceGetAccountingBufferSize) X(nvmlDeviceGetAccountingMode) \
    X(nvmlDeviceGetAccountingPids) X(nvmlDeviceGetAccountingStats) X(nvmlDeviceGetAccountingStats_v2) \
    X(nvmlDeviceGetActiveVgpus) X(nvmlDeviceGetAddressingMode) X(nvmlDeviceGetBBXTimeData_v1) \
    X(nvmlDeviceGetBridgeChipInfo) X(nvmlDeviceGetC2cModeInfoV) X(nvmlDeviceGetCapabilities) \
    X(nvmlDeviceGetClkMonStatus) X(nvmlDeviceGetClockOffsets) X(nvmlDeviceGetComputeInstanceId) \
    X(nvmlDeviceGetConfComputeGpuAttestationReport) X(nvmlDeviceGetConfComputeGpuCertificate) \
    X(nvmlDeviceGetConfComputeMemSizeInfo) X(nvmlDeviceGetCoolerInfo) X(nvmlDeviceGetCpuAffinity) \
    X(nvmlDeviceGetCpuAffinityWithinScope) X(nvmlDeviceGetCreatableVgpus) X(nvmlDeviceGetCurrentClockFreqs) \
    X(nvmlDeviceGetDetailedEccErrors) X(nvmlDeviceGetDeviceHandleFromMigDeviceHandle) \
    X(nvmlDeviceGetDramEncryptionMode) X(nvmlDeviceGetDriverModel) X(nvmlDeviceGetDriverModel_v2) \
    X(nvmlDeviceGetDynamicPstatesInfo) X(nvmlDeviceGetEncoderCapacity) X(nvmlDeviceGetEncoderSessions) \
    X(nvmlDeviceGetEncoderStats) X(nvmlDeviceGetFBCSessions) X(nvmlDeviceGetFBCStats) \
    X(nvmlDeviceGetFanControlPolicy_v2) X(nvmlDeviceGetFanSpeedRPM) X(nvmlDeviceGetGpcClkMinMaxVfOffset) \
    X(nvmlDeviceGetGpcClkVfOffset) X(nvmlDeviceGetGpuInstanceById) X(nvmlDeviceGetGpuInstanceId) \
    X(nvmlDeviceGetGpuInstancePossiblePlacements) X(nvmlDeviceGetGpuInstancePossiblePlacements_v2) \
    X(nvmlDeviceGetGpuInstanceProfileInfo) X(nvmlDeviceGetGpuInstanceProfileInfoByIdV) \
    X(nvmlDeviceGetGpuInstanceProfileInfoV) X(nvmlDeviceGetGpuInstanceRemainingCapacity) \
    X(nvmlDeviceGetGpuInstances) X(nvmlDeviceGetGpuOperationMode) X(nvmlDeviceGetGridLicensableFeatures) \
    X(nvmlDeviceGetGridLicensableFeatures_v2) X(nvmlDeviceGetGridLicensableFeatures_v3) \
    X(nvmlDeviceGetGridLicensableFeatures_v4) X(nvmlDeviceGetHostVgpuMode) X(nvmlDeviceGetHostname_v1) \
    X(nvmlDeviceGetInforomConfigurationChecksum) X(nvmlDeviceGetInforomVersion) X(nvmlDeviceGetIrqNum) \
    X(nvmlDeviceGetLastBBXFlushTime) X(nvmlDeviceGetMarginTemperature) X(nvmlDeviceGetMemClkMinMaxVfOffset) \
    X(nvmlDeviceGetMemClkVfOffset) X(nvmlDeviceGetMemoryAffinity) X(nvmlDeviceGetMigDeviceHandleByIndex) \
    X(nvmlDeviceGetMinMaxClockOfPState) X(nvmlDeviceGetMinMaxFanSpeed) X(nvmlDeviceGetMinorNumber) \
    X(nvmlDeviceGetNumaNodeId) X(nvmlDeviceGetNvLinkInfo) X(nvmlDeviceGetNvLinkUtilizationControl) \
    X(nvmlDeviceGetNvLinkUtilizationCounter) X(nvmlDeviceGetNvlinkBwMode) \
    X(nvmlDeviceGetNvlinkSupportedBwModes) X(nvmlDeviceGetPcieThroughput) X(nvmlDeviceGetPdi) \
    X(nvmlDeviceGetPerformanceModes) X(nvmlDeviceGetPgpuMetadataString) X(nvmlDeviceGetPowerMizerMode_v1) \
    X(nvmlDeviceGetPowerSource) X(nvmlDeviceGetProcessesUtilizationInfo) X(nvmlDeviceGetRemappedRows_v2) \
    X(nvmlDeviceGetRepairStatus) X(nvmlDeviceGetRetiredPages) X(nvmlDeviceGetRetiredPages_v2) \
    X(nvmlDeviceGetRunningProcessDetailList) X(nvmlDeviceGetSamples) X(nvmlDeviceGetSramEccErrorStatus) \
    X(nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts) X(nvmlDeviceGetSupportedEventTypes) \
    X(nvmlDeviceGetSupportedGraphicsClocks) X(nvmlDeviceGetSupportedPerformanceStates) \
    X(nvmlDeviceGetSupportedVgpus) X(nvmlDeviceGetTargetFanSpeed) X(nvmlDeviceGetThermalSettings) \
    X(nvmlDeviceGetUnrepairableMemoryFlag_v1) X(nvmlDeviceGetVgpuCapabilities) \
    X(nvmlDeviceGetVgpuHeterogeneousMode) X(nvmlDeviceGetVgpuInstancesUtilizationInfo) \
    X(nvmlDeviceGetVgpuMetadata) X(nvmlDeviceGetVgpuProcessUtilization) \
    X(nvmlDeviceGetVgpuProcessesUtilizationInfo) X(nvmlDeviceGetVgpuSchedulerCapabilities) \
    X(nvmlDeviceGetVgpuSchedulerLog) X(nvmlDeviceGetVgpuSchedulerLog_v2) X(nvmlDeviceGetVgpuSchedulerState) \
    X(nvmlDeviceGetVgpuSchedulerState_v2) X(nvmlDeviceGetVgpuTypeCreatablePlacements) \
    X(nvmlDeviceGetVgpuTypeSupportedPlacements) X(nvmlDeviceGetVgpuUtilization) \
    X(nvmlDeviceGetVirtualizationMode) X(nvmlDeviceQueryDrainState) X(nvmlDeviceReadPRMCounters_v1) \
    X(nvmlDeviceRegisterEvents) X(nvmlDeviceSetCpuAffinity) X(nvmlDeviceValidateInforom) \
    X(nvmlDeviceWorkloadPowerProfileGetCurrentProfiles) X(nvmlDeviceWorkloadPowerProfileGetProfilesInfo) \
    X(nvmlEventSetCreate) X(nvmlEventSetFree) X(nvmlEventSetWait) X(nvmlEventSetWait_v2) \
    X(nvmlGetExcludedDeviceCount) X(nvmlGetExcludedDeviceInfoByIndex) X(nvmlGetVgpuCompatibility) \
    X(nvmlGetVgpuDriverCapabilities) X(nvmlGetVgpuVersion) X(nvmlGpmMetricsGet) X(nvmlGpmMigSampleGet) \
    X(nvmlGpmQueryDeviceSupport) X(nvmlGpmQueryIfStreamingEnabled) X(nvmlGpmSampleAlloc) X(nvmlGpmSampleFree) \
    X(nvmlGpmSampleGet) X(nvmlGpuInstanceGetActiveVgpus) X(nvmlGpuInstanceGetComputeInstanceById) \
    X(nvmlGpuInstanceGetComputeInstancePossiblePlacements) X(nvmlGpuInstanceGetComputeInstanceProfileInfo) \
    X(nvmlGpuInstanceGetComputeInstanceProfileInfoV) X(nvmlGpuInstanceGetComputeInstanceRemainingCapacity) \
    X(nvmlGpuInstanceGetComputeInstances) X(nvmlGpuInstanceGetCreatableVgpus) X(nvmlGpuInstanceGetInfo) \
    X(nvmlGpuInstanceGetVgpuHeterogeneousMode) X(nvmlGpuInstanceGetVgpuSchedulerLog) \
    X(nvmlGpuInstanceGetVgpuSchedulerLog_v2) X(nvmlGpuInstanceGetVgpuSchedulerState) \
    X(nvmlGpuInstanceGetVgpuSchedulerState_v2) X(nvmlGpuInstanceGetVgpuTypeCreatablePlacements) \
    X(nvmlSystemEventSetCreate) X(nvmlSystemEventSetFree) X(nvmlSystemEventSetWait) X(nvmlSystemGetCPER_v1) \
    X(nvmlSystemGetConfComputeKeyRotationThresholdInfo) X(nvmlSystemGetDriverBranch) \
    X(nvmlSystemGetHicVersion) X(nvmlSystemGetNvlinkBwMode) X(nvmlSystemGetTopologyGpuSet) \
    X(nvmlSystemRegisterEvents) X(nvmlUnitGetCount) X(nvmlUnitGetDevices) X(nvmlUnitGetFanSpeedInfo) \
    X(nvmlUnitGetHandleByIndex) X(nvmlUnitGetLedState) X(nvmlUnitGetPsuInfo) X(nvmlUnitGetTemperature) \
    X(nvmlUnitGetUnitInfo) X(nvmlVgpuInstanceGetAccountingMode) X(nvmlVgpuInstanceGetAccountingPids) \
    X(nvmlVgpuInstanceGetAccountingStats) X(nvmlVgpuInstanceGetEccMode) X(nvmlVgpuInstanceGetEncoderCapacity) \
    X(nvmlVgpuInstanceGetEncoderSessions) X(nvmlVgpuInstanceGetEncoderStats) X(nvmlVgpuInstanceGetFBCSessions) \
    X(nvmlVgpuInstanceGetFBCStats) X(nvmlVgpuInstanceGetFbUsage) X(nvmlVgpuInstanceGetFrameRateLimit) \
    X(nvmlVgpuInstanceGetGpuInstanceId) X(nvmlVgpuInstanceGetGpuPciId) X(nvmlVgpuInstanceGetLicenseInfo) \
    X(nvmlVgpuInstanceGetLicenseInfo_v2) X(nvmlVgpuInstanceGetLicenseStatus) X(nvmlVgpuInstanceGetMdevUUID) \
    X(nvmlVgpuInstanceGetMetadata) X(nvmlVgpuInstanceGetPlacementId) X(nvmlVgpuInstanceGetRuntimeStateSize) \
    X(nvmlVgpuInstanceGetType) X(nvmlVgpuInstanceGetUUID) X(nvmlVgpuInstanceGetVmDriverVersion) \
    X(nvmlVgpuInstanceGetVmID) X(nvmlVgpuTypeGetBAR1Info) X(nvmlVgpuTypeGetCapabilities) \
    X(nvmlVgpuTypeGetClass) X(nvmlVgpuTypeGetDeviceID) X(nvmlVgpuTypeGetFbReservation) \
    X(nvmlVgpuTypeGetFrameRateLimit) X(nvmlVgpuTypeGetFramebufferSize) X(nvmlVgpuTypeGetGpuInstanceProfileId) \
    X(nvmlVgpuTypeGetGspHeapSize) X(nvmlVgpuTypeGetLicense) X(nvmlVgpuTypeGetMaxInstances) \
    X(nvmlVgpuTypeGetMaxInstancesPerGpuInstance) X(nvmlVgpuTypeGetMaxInstancesPerVm) X(nvmlVgpuTypeGetName) \
    X(nvmlVgpuTypeGetNumDisplayHeads) X(nvmlVgpuTypeGetResolution)
// clang-format on
