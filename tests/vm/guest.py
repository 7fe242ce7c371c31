# SPDX-License-Identifier: Apache-2.0
"""guest.py: a guest VM of the tests: how QEMU is called, by us or by libvirt, whether with KVM, the guest's console and serial ports, its
program's streams, its end. tests/vm/run and the demo, which uses run, boot it; tests/vm/debian boots what `barcuda vm` makes."""
import ctypes
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from xml.sax.saxutils import quoteattr

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = TOP / os.environ.get('BARCUDA_BUILD', 'build')


class Failure(Exception):
    """The guest or the bridge failed: status 125."""


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def show_log(log, *names):
    for name in names:
        file = pathlib.Path(log, name)
        if file.exists() and file.stat().st_size:
            sys.stderr.write(f'---- {name} ----\n' + file.read_text(errors='replace')[-8000:] + '\n')


# ---- the machine ---------------------------------------------------------------------------------------------------

def parts(a):
    """(command of QEMU, directory with vmlinux and initramfs): from a bundle, or made here."""
    bundle = os.environ.get('BARCUDA_VM_BUNDLE')
    if bundle:
        b = pathlib.Path(bundle).resolve()
        return ['env', f'QEMU_MODULE_DIR={b}/lib/qemu', f'{b}/lib/ld.so', '--library-path', f'{b}/lib', f'{b}/qemu',
                '-L', f'{b}/firmware'], b
    qemu = shutil.which('qemu-system-x86_64')
    if not qemu:
        raise Failure('qemu-system-x86_64 is missing: apt-get install qemu-system-x86 (or make deps)')
    made = subprocess.run([TOP / 'tests/vm/prepare', a.prepared or BUILD / 'vm'], stdout=subprocess.PIPE, text=True)
    if made.returncode:
        raise Failure('tests/vm/prepare failed')
    return [qemu], pathlib.Path(made.stdout.strip())


def has_kvm():
    """KVM only on a processor that says so: elsewhere /dev/kvm may open and not work."""
    cpu = pathlib.Path('/proc/cpuinfo').read_text()
    return bool(re.search(r'\b(vmx|svm)\b', cpu)) and os.access('/dev/kvm', os.R_OK | os.W_OK)


# The processor without KVM, as `barcuda vm` has it.
EMULATED = re.search(r'emulated_processor = "(.*)";', (TOP / 'host-bridge/cli/vm.cc').read_text())[1]


def accelerator():
    if has_kvm():
        return ['-accel', 'kvm', '-cpu', 'host']
    return ['-accel', 'tcg,thread=multi', '-cpu', EMULATED]


class Carried:
    """A root of a few files of this machine's, at their own paths, and of what they need."""

    def __init__(self, root):
        self.root = root
        for name in ('bin', 'lib', 'lib64', 'sbin'):
            if os.path.islink(f'/{name}'):
                self.make_link(f'/{name}')
        for folder in ('/proc', '/sys', '/dev', '/run', '/tmp', os.getcwd()):
            pathlib.Path(f'{root}{folder}').mkdir(parents=True, exist_ok=True)
        os.chmod(f'{root}/tmp', 0o1777)

    def make_link(self, path):
        target = pathlib.Path(f'{self.root}{path}')
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(os.readlink(path))

    def add(self, path):
        """A file, a folder's files, or a link and where it leads."""
        place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if os.path.lexists(f'{self.root}{place}'):
            return
        if os.path.islink(place):
            self.make_link(place)
            self.add(os.path.join(os.path.dirname(place), os.readlink(place)))
        elif os.path.isdir(place):
            for name in os.listdir(place):
                self.add(os.path.join(place, name))
        else:
            os.makedirs(os.path.dirname(f'{self.root}{place}'), exist_ok=True)
            shutil.copy(place, f'{self.root}{place}')
            needs = subprocess.run(['ldd', place], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
            for needed in re.findall(r'(/\S+) \(0x', needs):
                self.add(needed)


def carried_root(a, made, log):
    """An initramfs that has this root, too; the one that the guest was started with, if it goes on."""
    if a.after:
        os.link(f'{a.after}/initramfs', f'{log}/initramfs')
        return f'{log}/initramfs'
    carried = Carried(f'{log}/root/host')
    for name in ('bash', BUILD / 'lib/libbarcuda.so', BUILD / 'lib/barcuda', *a.carry):
        carried.add(str(name) if '/' in str(name) else shutil.which(name))
    if a.transport == 'virtio-pmem':
        carried.add(str(BUILD / 'bin/barcuda'))
    with open(f'{log}/initramfs', 'wb') as out:
        out.write((made / 'initramfs').read_bytes())
        out.flush()
        subprocess.run('find host | cpio -o -H newc --quiet --owner=0:0', shell=True, cwd=f'{log}/root', stdout=out, check=True)
    shutil.rmtree(f'{log}/root')
    return f'{log}/initramfs'


# no_timer_check: on a busy host the emulated timer fails the kernel's test of it
KERNEL = 'console=ttyS0 quiet panic=-1 mitigations=off no_timer_check '
def bytes_of(size):
    return int(size[:-1]) << {'K': 10, 'M': 20, 'G': 30}[size[-1]]


def qemu_command(a, region, ports, log):
    qemu, made = parts(a)
    command = qemu + ['-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot', '-machine', 'q35']
    command += accelerator() + ['-smp', str(a.cpus), '-m', a.memory]
    if a.transport == 'virtio-pmem':  # room for the region, and for its alignment
        command[-1] += f',slots=1,maxmem={bytes_of(a.memory) + os.path.getsize(region) + bytes_of("1G")}'
    command += ['-kernel', str(made / 'vmlinux'), '-initrd', carried_root(a, made, log) if a.carry or a.after else str(made / 'initramfs'),
                '-append', KERNEL + a.kernel]
    command += ['-chardev', f'file,id=console,path={log}/console', '-serial', 'chardev:console']
    command += ['-qmp', f'unix:{log}/qmp,server=on,wait=off']
    if not a.carry and not a.after:
        command += ['-virtfs', f'local,path={a.root_dir},mount_tag=host,security_model=none,readonly=on,multidevs=remap']
    if a.transport == 'doorbell':
        command += ['-chardev', f'socket,id=doorbell,path={log}/doorbell', '-device', 'ivshmem-doorbell,chardev=doorbell,vectors=1']
    else:
        device = ('ivshmem-plain,master=on' if a.carry or a.after else 'ivshmem-plain') if a.transport == 'plain' else 'virtio-pmem-pci'
        command += ['-object', f'memory-backend-file,id=region,share=on,mem-path={region},size={os.path.getsize(region)}',
                    '-device', f'{device},memdev=region']
    command += ['-device', 'isa-debug-exit,iobase=0xf4,iosize=4', '-device', 'virtio-serial-pci']
    command += ['-device', 'vmgenid,guid=auto'] if a.carry or a.after else []  # another one for each start: the kernel seeds its random numbers again
    command += ['-incoming', 'defer'] if a.after else []
    for name, port in ports.items():
        command += ['-chardev', f'socket,id={name},fd={port.fileno()}', '-device', f'virtserialport,chardev={name},name={name}']
    return command


VIRSH = ['virsh', '--quiet', '--connect', 'qemu:///system']


def libvirt_user():
    """Who QEMU is under libvirt, and the group that its regions are for."""
    for name in ('libvirt-qemu', 'qemu'):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    raise Failure('libvirt has no user for QEMU here (libvirt-qemu)')


def name_of_vm(region):
    return pathlib.Path(region).name.removeprefix('barcuda-')


def told(a, region, log):
    """What an administrator is told to add to the domain, and whether to its devices."""
    command = [BUILD / 'bin/barcuda', 'vm-config', '--libvirt', name_of_vm(region), '--size', a.region_size]
    command += {'doorbell': ['--doorbell', '--socket', f'{log}/doorbell'], 'plain': ['--suspend'] if a.carry else [],
                'virtio-pmem': ['--virtio-pmem', '--memory', a.memory]}[a.transport]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout, a.transport != 'virtio-pmem'


def domain(a, region, log):
    _, made = parts(a)
    channels = ''.join(f"<channel type='unix'><source mode='connect' path={quoteattr(f'{log}/{name}')}/>"
                       f"<target type='virtio' name='{name}'/></channel>" for name in PORTS)
    model, *features = EMULATED.split(',')
    features = ''.join(f"<feature policy='require' name='{f.removeprefix('+')}'/>" for f in features)
    kvm = has_kvm()
    element, in_devices = told(a, region, log)
    initrd = carried_root(a, made, log) if a.carry else f'{made}/initramfs'
    root = '' if a.carry else f"""<filesystem type='mount' accessmode='squash' multidevs='remap'><source dir={quoteattr(a.root_dir)}/>
<target dir='host'/><readonly/></filesystem>"""
    return f"""<domain type='{'kvm' if kvm else 'qemu'}' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
<name>{name_of_vm(region)}</name><memory unit='b'>{bytes_of(a.memory)}</memory><vcpu>{a.cpus}</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type><kernel>{made}/vmlinux</kernel><initrd>{initrd}</initrd>
<cmdline>{KERNEL}{a.kernel}</cmdline></os><features><acpi/></features>
{"<cpu mode='host-passthrough'/>" if kvm else f"<cpu mode='custom' match='exact' check='none'><model fallback='allow'>{model}</model>{features}</cpu>"}
<on_reboot>destroy</on_reboot><devices><serial type='file'><source path={quoteattr(f'{log}/console')}/></serial>
{root}{channels}{element if in_devices else ''}</devices>{'' if in_devices else element}
<qemu:commandline><qemu:arg value='-device'/><qemu:arg value='isa-debug-exit,iobase=0xf4,iosize=4'/></qemu:commandline></domain>"""


# ---- the program's streams and its job -----------------------------------------------------------------------------

class Output(threading.Thread):
    """Copies one stream of the guest's to ours, and counts."""

    def __init__(self, port, fd):
        super().__init__(daemon=True)
        self.port, self.fd, self.count, self.grown = port, fd, 0, threading.Condition()
        self.start()

    def run(self):
        while data := self.port.recv(1 << 16):
            self.write(data)
            with self.grown:
                self.count += len(data)
                self.grown.notify_all()

    def write(self, data):
        try:
            while data:
                data = data[os.write(self.fd, data):]
        except BrokenPipeError:
            pass  # no reader is left: let the program go on

    def wait_for(self, count):
        with self.grown:
            self.grown.wait_for(lambda: self.count >= count)


class Answer(threading.Thread):
    """Waits for the guest's status, and tells it when all of its output has arrived: then it may end. `before`: how much of it has not come to us."""

    def __init__(self, port, outputs, before):
        super().__init__(daemon=True)
        self.port, self.outputs, self.before, self.status = port, outputs, before, None
        self.start()

    def run(self):
        try:
            line = self.port.makefile('rb').readline()
        except ConnectionResetError:
            return  # the guest ended before it took its job
        if match := re.fullmatch(rb'status (\d+) (\d+) (\d+)\n', line):
            for output, count, before in zip(self.outputs, match.groups()[1:], self.before()):
                output.wait_for(int(count) - before)
            self.status = int(match[1])
            self.port.sendall(b'\n')


def copy_in(fd, port):
    try:
        while data := os.read(fd, 1 << 16):
            port.sendall(data)
        port.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # no standard input, or the guest has ended


# ---- the guest ----------------------------------------------------------------------------------------------------

PORTS = ('job', 'stdin', 'stdout', 'stderr')


class Guest:
    """A guest that boots when it is made. `ports`: our ends of its serial ports, of which one takes a job and the others are its streams.
    `log`: where it leaves how much it has said; `after`: where an earlier run of this guest has."""

    def before(self):
        return json.loads(pathlib.Path(self.after, 'said').read_text()) if self.after else [0, 0]

    def run(self, job, timeout):
        """Runs a program with this process's streams: its status, or None if the guest ended without one. The guest ends with it.
        Without a job the guest has one already."""
        outputs = [Output(self.ports['stdout'], 1), Output(self.ports['stderr'], 2)]
        threading.Thread(target=copy_in, args=(0, self.ports['stdin']), daemon=True).start()
        try:
            if job:
                self.ports['job'].sendall(job)
            answer = Answer(self.ports['job'], outputs, self.before)
            self.wait(timeout)
            answer.join(10)
            return answer.status
        finally:
            pathlib.Path(self.log, 'said').write_text(json.dumps([output.count + before for output, before in zip(outputs, self.before())]))
            if self.poll() is None:
                self.kill()
                self.wait()


class Machine(Guest):
    """A QEMU process of ours. It ends with this process."""

    def __init__(self, a, region, log):
        self.ports, theirs, self.log, self.after = {}, {}, log, a.after
        for name in PORTS:
            self.ports[name], theirs[name] = socket.socketpair()
        with open(f'{log}/qemu', 'wb') as out:
            self.process = subprocess.Popen(qemu_command(a, region, theirs, log), pass_fds=[s.fileno() for s in theirs.values()],
                                            preexec_fn=die_with_parent, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        for port in theirs.values():
            port.close()
        self.poll, self.wait, self.kill = self.process.poll, self.process.wait, self.process.kill


class Domain(Guest):
    """A domain of this machine's libvirt."""

    def __init__(self, a, region, log):
        self.name, self.listeners, self.log, self.after = name_of_vm(region), {}, log, a.after
        for name in PORTS:
            listener = self.listeners[name] = socket.socket(socket.AF_UNIX)
            path = pathlib.Path(a.after or log, name)
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            os.chmod(path, 0o777)
            listener.listen()
        os.chmod(log, 0o711)
        if a.after:  # `barcuda wake` starts it
            return
        file = pathlib.Path(log, 'domain.xml')
        file.write_text(domain(a, region, log))
        with open(f'{log}/qemu', 'wb') as out:
            if subprocess.run(VIRSH + ['create', file], stdout=out, stderr=out).returncode:
                show_log(log, 'qemu')
                raise Failure('libvirt does not start the domain')

    def run(self, job, timeout):
        self.ports = {name: listener.accept()[0] for name, listener in self.listeners.items()}
        return super().run(job, timeout)

    def poll(self):
        """None: it runs."""
        return subprocess.run(VIRSH + ['domstate', self.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode or None

    def wait(self, timeout=30):
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired('virsh', timeout)
            time.sleep(0.2)

    def kill(self):
        subprocess.run(VIRSH + ['destroy', self.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
