# SPDX-License-Identifier: Apache-2.0
<#
.SYNOPSIS
Installs Barcuda in a Windows guest, or takes it away.

.DESCRIPTION
Finds the VM's ivshmem devices, installs virtio-win's driver for them if it is named, and copies Barcuda's DLLs and barcuda.exe to a folder
of Barcuda's own. The DLLs also go to System32, where programs look for NVIDIA's, if no NVIDIA driver is there; else programs are started by
`barcuda exec`.
docs/windows.md has the steps by hand. Needs an administrator's PowerShell, but for -WhatIf.

.PARAMETER From
The folder with these files; default: the one of this script.

.PARAMETER Driver
virtio-win's ivshmem.inf, from its ISO image.

.PARAMETER Region
The regions that programs use: ivshmem:N, N counted from 0, or several of them with semicolons between them. Default: all devices, of
which each process takes the first free one, and no variable is set.

.PARAMETER Uninstall
Takes the DLLs, the folder and the variable away. The driver stays.

.EXAMPLE
.\install.ps1 -Driver D:\ivshmem\w11\amd64\ivshmem.inf
.EXAMPLE
.\install.ps1 -Uninstall -WhatIf
#>
[CmdletBinding(SupportsShouldProcess)]
param(
    [string]$From = $PSScriptRoot,
    [string]$Driver,
    [ValidatePattern('^ivshmem:\d+(;ivshmem:\d+)*$')][string]$Region,
    [switch]$Uninstall
)
Set-StrictMode -Version 3
$ErrorActionPreference = 'Stop'

$Dlls = 'nvcuda.dll', 'nvml.dll', 'cudart64_12.dll', 'cudart64_13.dll'
$Command = 'barcuda.exe'
$System = Join-Path $env:SystemRoot 'System32'
$Own = Join-Path $env:ProgramFiles 'Barcuda'
$Mark = Join-Path $Own 'in-system32.txt' # which files of System32 are ours

function Test-Administrator {
    $me = [Security.Principal.WindowsPrincipal][Security.Principal.WindowsIdentity]::GetCurrent()
    $me.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)
}

function Get-OurFiles {
    if (Test-Path $Mark) { Get-Content $Mark } else { @() }
}

if (-not $WhatIfPreference -and -not (Test-Administrator)) {
    throw 'Only an administrator may install: start PowerShell by "Run as administrator".'
}

if ($Uninstall) {
    foreach ($file in Get-OurFiles) {
        $path = Join-Path $System $file
        if ((Test-Path $path) -and $PSCmdlet.ShouldProcess($path, 'remove')) { Remove-Item $path }
    }
    if ((Test-Path $Own) -and $PSCmdlet.ShouldProcess($Own, 'remove')) { Remove-Item -Recurse $Own }
    if ($PSCmdlet.ShouldProcess('BARCUDA_REGION', 'remove the variable')) {
        [Environment]::SetEnvironmentVariable('BARCUDA_REGION', $null, 'Machine')
    }
    return
}

$missing = @(($Dlls + $Command) | Where-Object { -not (Test-Path (Join-Path $From $_)) })
if ($missing.Count) { throw "$From has no $($missing -join ', '): run 'make windows' on Linux and copy build/lib/barcuda-windows." }

$devices = @(Get-PnpDevice -PresentOnly | Where-Object { $_.InstanceId -like 'PCI\VEN_1AF4&DEV_1110*' })
if (-not $devices.Count) { throw 'This VM has no ivshmem device (1AF4:1110): add one on the host (docs/using-your-own-vm.md).' }
if ($Driver) {
    if (-not (Test-Path $Driver)) { throw "$Driver is not there: it is in the ISO image of virtio-win, folder ivshmem." }
    if ($PSCmdlet.ShouldProcess($Driver, 'pnputil /add-driver /install')) {
        & pnputil.exe /add-driver $Driver /install
        if ($LASTEXITCODE -notin 0, 259, 3010) { throw "pnputil has failed with $LASTEXITCODE." }
    }
} elseif ($devices | Where-Object { $_.Status -ne 'OK' }) {
    Write-Warning 'An ivshmem device has no working driver: name virtio-win''s by -Driver.'
}

# Of NVIDIA's driver, or of another project: whatever has the name and is not ours stays.
$theirs = @($Dlls | Where-Object { (Test-Path (Join-Path $System $_)) -and $_ -notin (Get-OurFiles) })
if ($PSCmdlet.ShouldProcess($Own, 'make the folder')) { New-Item -ItemType Directory -Force $Own | Out-Null }
if ($theirs.Count) {
    Write-Warning "System32 has $($theirs -join ', ') already: programs that want ours are started by '$Own\$Command exec'."
    $folders = @($Own)
} else {
    $folders = $Own, $System
    if ($PSCmdlet.ShouldProcess($Mark, 'write')) { Set-Content $Mark $Dlls } # before the first copy: a copy that fails leaves a mark
}
foreach ($to in $folders) {
    foreach ($file in $Dlls) {
        if ($PSCmdlet.ShouldProcess((Join-Path $to $file), 'copy')) { Copy-Item (Join-Path $From $file) $to }
    }
}
if ($PSCmdlet.ShouldProcess((Join-Path $Own $Command), 'copy')) { Copy-Item (Join-Path $From $Command) $Own }
Write-Output "'$Own\$Command doctor' says whether all is there."
if ($Region -and $PSCmdlet.ShouldProcess("BARCUDA_REGION=$Region", 'set the variable')) {
    [Environment]::SetEnvironmentVariable('BARCUDA_REGION', $Region, 'Machine')
}
