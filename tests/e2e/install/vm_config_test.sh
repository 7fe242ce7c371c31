#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `barcuda vm-config`: what it prints is what each manager of VMs takes: QEMU itself, and libvirt where it is installed.
. "$(dirname "$0")/../lib.sh"
need python3
config() { "$build/bin/barcuda" vm-config "$@"; }
export size=256M
serve --doorbell "$scratch/doorbell"
if command -v qemu-system-x86_64 > /dev/null; then
    for more in "--region $scratch/region" "--doorbell --socket $scratch/doorbell" "--virtio-pmem --memory 64M --region $scratch/region"; do
        options=$(config --qemu vm1 --size $size $more) || fail "vm-config: $options"
        # the machine comes up, and says what is plugged in
        printf '{"execute":"qmp_capabilities"}\n{"execute":"query-pci"}\n{"execute":"query-memory-devices"}\n{"execute":"quit"}\n' |
            timeout 60 qemu-system-x86_64 -S -nodefaults -display none -qmp stdio $options > "$scratch/qmp" 2> "$scratch/qemu" || fail "QEMU: $(cat "$scratch/qemu")"
        grep -q '"device": 4368, "vendor": 6900' "$scratch/qmp" || grep -q '"vendor": 6900' "$scratch/qmp" || fail "no ivshmem device: $(cat "$scratch/qmp")"
        [[ $more != --virtio-pmem* ]] || grep -q '"type": "virtio-pmem".*"size": 268435456' "$scratch/qmp" || fail "no virtio-pmem device: $(cat "$scratch/qmp")"
    done
else
    echo "no qemu-system-x86_64 here"
fi
for more in "" --doorbell --virtio-pmem; do
    config --libvirt vm1 --size 8G $more > "$scratch/xml" || fail "--libvirt"
    python3 - "$scratch/xml" "$more" "$(config --qemu vm1 --size 8G $more)" << 'P' || fail "$(cat "$scratch/xml")"
import sys, xml.etree.ElementTree as tree
added, more = tree.parse(sys.argv[1]).getroot(), sys.argv[2]
kind = '' if more == '--virtio-pmem' else added.find('model').get('type')
if not kind: assert [x.get('value') for x in added] == (sys.argv[3].replace('4G,slots', 'slots') + ',addr=0x1c').split(' ') and 'slots=1,maxmem=13G' in sys.argv[3]
elif more: assert kind == 'ivshmem-doorbell' and added.find('server').get('path') == '/run/barcuda/vm1/doorbell'
else: assert kind == 'ivshmem-plain' and added.get('name') == 'barcuda-vm1' and added.find('size').text == '8192'
P
    command -v virt-xml-validate xmllint > "$scratch/out" && [ "$(wc -l < "$scratch/out")" = 2 ] || continue
    { echo '<domain type="qemu"><name>vm1</name><memory>1048576</memory><os><type arch="x86_64" machine="q35">hvm</type></os><devices>'
      if [ "$more" = --virtio-pmem ]; then echo '</devices>'; cat "$scratch/xml"; else cat "$scratch/xml"; echo '</devices>'; fi
      echo '</domain>'; } > "$scratch/domain.xml"
    virt-xml-validate "$scratch/domain.xml" domain > "$scratch/out" 2>&1 || fail "libvirt: $(cat "$scratch/out")"
done
config --kubevirt vm1 | python3 -c 'import json, re, sys; json.loads(re.search("hookSidecars: .(.*).$", sys.stdin.read(), re.M)[1])' || fail "--kubevirt"
# KubeVirt's hook, by its protocol: what it makes of a domain is the domain, with what --libvirt prints.
config --kubevirt vm1 --size 8G | sed -n '/^  barcuda.sh: |$/,/^---$/p' | sed '1d; $d; s/^    //' > "$scratch/onDefineDomain" && chmod +x "$scratch/onDefineDomain"
config --libvirt vm1 --size 8G --region /dev/shm/barcuda > "$scratch/xml"
domain="<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>a_b</name><devices><disk type='file'><source file='/a &amp; b'/></disk></devices><metadata>100% \\n \$x</metadata></domain>"
"$scratch/onDefineDomain" --vmi '{"metadata": {"name": "a --domain b"}}' --domain "$domain" > "$scratch/domain" || fail "the hook"
python3 - "$scratch/domain" "$scratch/xml" "$domain" << 'P' || fail "the hook's domain: $(cat "$scratch/domain")"
import sys, xml.etree.ElementTree as tree
made, wanted, before = tree.parse(sys.argv[1]).getroot(), tree.parse(sys.argv[2]).getroot(), tree.fromstring(sys.argv[3])
device = made.find('devices/shmem')
plain = lambda e: (e.tag, e.attrib, (e.text or '').strip(), [plain(child) for child in e])
assert plain(device) == plain(wanted) and device.get('name') == 'barcuda' and device.find('size').text == '8192'
made.find('devices').remove(device)
assert plain(made) == plain(before)
P
"$scratch/onDefineDomain" --domain "$(cat "$scratch/domain")" --vmi '{}' | cmp - "$scratch/domain" || fail "the hook gives a domain a second device"
! "$scratch/onDefineDomain" --vmi '{}' > "$scratch/out" 2>&1 && grep -q 'no domain' "$scratch/out" || fail "a hook without a domain: $(cat "$scratch/out")"
config --proxmox vm1 --size 1536M | grep -q '^args: .*size=1536M' || fail "--proxmox"
config --incus vm1 | grep -q "^incus config set vm1 raw.qemu='-object .*/dev/shm/barcuda-vm1" || fail "--incus"
! config --libvirt vm1 --region /dev/hugepages/vm1 > "$scratch/out" 2>&1 && grep -q -- --doorbell "$scratch/out" || fail "libvirt and another folder: $(cat "$scratch/out")"
! config --kubevirt vm1 --virtio-pmem > "$scratch/out" 2>&1 || fail "KubeVirt and virtio-pmem"
! config --qemu vm1 --virtio-pmem --doorbell > "$scratch/out" 2>&1 || fail "virtio-pmem with interrupts"
! config vm1 > "$scratch/out" 2>&1 || fail "no manager"
echo passed
