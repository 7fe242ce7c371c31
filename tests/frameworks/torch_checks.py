# SPDX-License-Identifier: Apache-2.0
"""PyTorch with the libraries of its wheels. (How to run them: checks.py.)"""
import json
import os
import shlex
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

from checks import Skipped, check, main, value_in_child

GPU = "cuda"


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape, device=GPU, dtype=dtype)


def total(*tensors):
    """Numbers that tell two results apart: the sum, and the sum of magnitudes, in double precision."""
    return [[t.double().sum().item(), t.double().abs().sum().item()] for t in tensors]


def two_gpus():
    if torch.cuda.device_count() < 2:
        raise Skipped("one GPU")


# ---- matrix products ------------------------------------------------------------------------------------------------
def product(dtype, n=512):
    a, b = random(n, n).to(dtype), random(n, n).to(dtype)
    return total(a @ b)


@check
def matmul_fp64():
    return product(torch.float64)


@check
def matmul_fp32():
    return product(torch.float32)


@check
def matmul_tf32():
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return product(torch.float32)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False


@check
def matmul_fp16():
    return product(torch.float16)


@check
def matmul_bf16():
    return product(torch.bfloat16)


@check
def matmul_fp8():
    a, b = random(256, 256).to(torch.float8_e4m3fn), random(256, 256).to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=GPU)
    return total(torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16))


@check
def matmul_complex():
    a = random(128, 128, dtype=torch.complex64)
    return total(torch.view_as_real(a @ a))


@check
def matmul_batched_int8():
    a = torch.randint(-8, 8, (64, 64), device=GPU, dtype=torch.int8)
    return [total(torch._int_mm(a, a)), total(torch.bmm(random(8, 64, 32), random(8, 32, 48)))]


# ---- layers ---------------------------------------------------------------------------------------------------------
def trained(module, *inputs):
    """The sum of squares of its output is differentiated: the output, and each parameter's gradient."""
    out = module(*inputs)
    out = out[0] if isinstance(out, tuple) else out
    out.pow(2).sum().backward()
    return [total(out.detach()), [total(p.grad) for p in module.parameters()]]


@check
def linear():
    return trained(nn.Linear(256, 128).to(GPU), random(64, 256))


@check
def convolution_1d():
    return trained(nn.Conv1d(8, 16, 5).to(GPU), random(4, 8, 200))


@check
def convolution_2d():
    return trained(nn.Conv2d(3, 16, 3, padding=1).to(GPU), random(4, 3, 64, 64))


@check
def convolution_3d():
    return trained(nn.Conv3d(2, 4, 3).to(GPU), random(2, 2, 16, 16, 16))


@check
def convolution_transposed():
    return trained(nn.ConvTranspose2d(8, 4, 3, stride=2).to(GPU), random(2, 8, 16, 16))


@check
def rnn():
    return trained(nn.RNN(32, 64, 2).to(GPU), random(20, 8, 32))


@check
def lstm():
    return trained(nn.LSTM(32, 64, 2).to(GPU), random(20, 8, 32))


@check
def gru():
    return trained(nn.GRU(32, 64).to(GPU), random(20, 8, 32))


@check
def embedding():
    return trained(nn.Embedding(1000, 64).to(GPU), torch.arange(0, 1000, 7, device=GPU))


@check
def norms():
    x = random(8, 32, 16, 16)
    return [trained(m.to(GPU), x) for m in (nn.BatchNorm2d(32), nn.GroupNorm(4, 32), nn.LayerNorm([32, 16, 16]))]


@check
def transformer_layer():
    return trained(nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True).to(GPU), random(4, 32, 64))


# ---- FFT, attention, linear algebra, sparse ---------------------------------------------------------------------------
@check
def fft_1d():
    x = random(16, 1000)
    return [total(torch.fft.fft(x).abs()), total(torch.fft.irfft(torch.fft.rfft(x)))]


@check
def fft_2d():
    x = random(4, 96, 130)
    return [total(torch.fft.fft2(x).abs()), total(torch.fft.ifft2(torch.fft.fft2(x)).real)]


@check
def fft_3d():
    return total(torch.fft.rfftn(random(32, 24, 40, dtype=torch.float64)).abs())


def attention(backend, dtype):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q, k, v = (random(2, 8, 256, 64, dtype=dtype).requires_grad_() for _ in range(3))
    with sdpa_kernel(getattr(SDPBackend, backend)):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.float().pow(2).sum().backward()
    return [total(out.detach()), total(q.grad, k.grad, v.grad)]


@check
def attention_math():
    return attention("MATH", torch.float32)


@check
def attention_flash():
    return attention("FLASH_ATTENTION", torch.float16)


@check
def attention_efficient():
    return attention("EFFICIENT_ATTENTION", torch.float16)


@check
def attention_cudnn():
    return attention("CUDNN_ATTENTION", torch.bfloat16)


def spd(n=100):
    a = random(n, n, dtype=torch.float64)
    return a, a @ a.T + n * torch.eye(n, device=GPU, dtype=torch.float64)


@check
def linalg_solve():
    a, s = spd()
    return [total(torch.linalg.solve(s, a)), total(torch.linalg.inv(s)), torch.linalg.slogdet(s)[1].item()]


@check
def linalg_cholesky():
    return total(torch.linalg.cholesky(spd()[1]))


@check
def linalg_svd():
    return total(torch.linalg.svdvals(spd()[0]))


@check
def linalg_eigh():
    return total(torch.linalg.eigvalsh(spd()[1]))


@check
def linalg_eig():
    return total(torch.linalg.eigvals(spd(40)[0]).abs())


@check
def linalg_qr():
    return total(torch.linalg.qr(spd()[0])[1].abs())


@check
def linalg_lstsq():
    a, s = spd()
    return total(torch.linalg.lstsq(s, a).solution)


@check
def sparse():
    a = random(200, 200)
    a[a < 1] = 0
    x = random(200, 32)
    coo = a.to_sparse_coo().coalesce()
    return [total(a.to_sparse_csr() @ x), total(torch.sparse.mm(coo, x)), total(torch.sparse.mm(coo, coo).to_dense())]


@check
def sort_scan_random():
    x = random(100_000)
    return [total(torch.sort(x)[0][::1000]), total(torch.cumsum(x, 0)[::1000]), total(torch.topk(x, 50)[0]), total(torch.unique((x * 10).int())),
            total(torch.multinomial(x.abs(), 100).float()), total(torch.bernoulli(x.sigmoid())), total(torch.randperm(1000, device=GPU)[:10])]


# ---- training --------------------------------------------------------------------------------------------------------
def steps(model, optimizer, batches, loss, scaler=None, dtype=torch.float16):
    losses = []
    for x in batches:
        optimizer.zero_grad()
        if scaler:
            with torch.autocast(GPU, dtype):
                error = loss(model(x))
            scaler.scale(error).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            error = loss(model(x))
            error.backward()
            optimizer.step()
        losses.append(error.item())
    return losses


@check
def training_amp():
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)).to(GPU)
    return steps(model, torch.optim.AdamW(model.parameters(), 1e-3), [random(32, 64) for _ in range(5)], lambda y: y.pow(2).mean(), torch.amp.GradScaler())


@check
def resnet50_step():
    import torchvision
    model = torchvision.models.resnet50().to(GPU)
    return steps(model, torch.optim.SGD(model.parameters(), 0.001), [random(8, 3, 112, 112) for _ in range(2)], lambda y: y.pow(2).mean())


def language_model(kind):
    import transformers
    if kind == "gpt2":
        shape = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=128, vocab_size=1000, bos_token_id=0, eos_token_id=0)
        return transformers.GPT2LMHeadModel(shape).to(GPU)
    shape = transformers.LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, vocab_size=1000)
    return transformers.LlamaForCausalLM(shape).to(GPU)


def language(kind, dtype):
    model = language_model(kind).to(dtype)
    tokens = torch.arange(64, device=GPU).reshape(2, 32)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    written = model.generate(tokens[:1, :8], max_new_tokens=16, do_sample=False, pad_token_id=0)
    return [losses, written.double().cpu().tolist()]


@check
def gpt2():
    return language("gpt2", torch.float32)


@check
def llama():
    return language("llama", torch.bfloat16)


# ---- compilers, graphs, streams, memory --------------------------------------------------------------------------------
@check
def compile_default():
    f = torch.compile(lambda x: (x.sin() * 2 + x @ x).sum(1))
    return total(f(random(128, 128)))


@check
def compile_reduce_overhead():
    f = torch.compile(lambda x: (x.sin() * 2 + x @ x).sum(1), mode="reduce-overhead")
    x = random(128, 128)
    return [total(f(x).clone()) for _ in range(4)]


@check
def cuda_graph():
    model, x = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(GPU), random(8, 64)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    values = []
    for i in range(3):
        x.fill_(i)
        graph.replay()
        values.append(total(y.detach()))
    return values


@check
def streams():
    streams = [torch.cuda.Stream() for _ in range(8)]
    xs = [random(256, 256) for _ in streams]
    torch.cuda.synchronize()
    for s, x in zip(streams, xs):
        with torch.cuda.stream(s):
            for _ in range(5):
                x.copy_((x @ x).tanh())
    for s in streams:
        s.synchronize()
    return total(*xs)


@check
def pinned_copies():
    a = torch.randn(1 << 20).pin_memory()
    b = a.to(GPU, non_blocking=True)
    c = torch.empty_like(a).pin_memory()
    c.copy_(b * 2, non_blocking=True)
    torch.cuda.synchronize()
    return total(c - 2 * a, c)


@check
def allocator_async():
    return value_in_child("resnet50_step", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")


@check
def allocator_expandable():
    return value_in_child("resnet50_step", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((3, 32, 32), float(i))


def loaded(context):
    total(random(10))  # CUDA is in use when the workers begin
    loader = torch.utils.data.DataLoader(Images(), batch_size=8, num_workers=3, pin_memory=True, multiprocessing_context=context)
    return [x.to(GPU, non_blocking=True).sum().item() for x in loader]


@check
def loader_forked():
    return loaded("fork")


@check
def loader_spawned():
    return loaded("spawn")


def double_it(tensor, done):
    tensor.mul_(2)
    torch.cuda.synchronize()
    done.set()


@check
def shared_tensor():
    context = torch.multiprocessing.get_context("spawn")
    x, done = random(1000), context.Event()
    before = total(x)
    child = context.Process(target=double_it, args=(x, done))
    child.start()
    done.wait(120)
    child.join()
    return [before, total(x), child.exitcode]


@check
def device_facts():
    p = torch.cuda.get_device_properties(0)
    return [torch.cuda.device_count(), p.major, p.minor, p.multi_processor_count, p.total_memory, torch.cuda.get_device_capability()[0],
            torch.backends.cudnn.version(), int(torch.version.cuda.split(".")[0])]


@check
def nvml():
    return [torch.cuda.utilization() >= 0, torch.cuda.device_memory_used() > 0, torch.cuda.temperature() > 0, torch.cuda.power_draw() > 0]


@check
def out_of_memory():
    try:
        torch.empty(1 << 50, device=GPU, dtype=torch.uint8)
    except torch.cuda.OutOfMemoryError:
        return [1, total(random(100))]
    return 0


# ---- several processes, several GPUs -----------------------------------------------------------------------------------
def ddp_rank(rank, ranks, where, results, device=None):
    import torch.distributed as dist
    device = rank if device is None else device
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", init_method=f"file://{where}", rank=rank, world_size=ranks)
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)).to(device), device_ids=[device])
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    torch.manual_seed(10 + rank)
    losses = steps(model, optimizer, [torch.randn(16, 64, device=device) for _ in range(4)], lambda y: y.pow(2).mean())
    gathered = [torch.zeros(4, device=device) for _ in range(ranks)]
    dist.all_gather(gathered, torch.tensor(losses, device=device))
    big = torch.ones(1 << 20, device=device) * (rank + 1)
    dist.all_reduce(big)
    weight = next(model.parameters()).double().sum().item()
    if rank == 0:
        results.extend([torch.stack(gathered).flatten().tolist(), big.sum().item(), weight])
    dist.destroy_process_group()


def ddp(ranks):
    with tempfile.TemporaryDirectory() as folder, torch.multiprocessing.Manager() as manager:
        results = manager.list()
        torch.multiprocessing.spawn(ddp_rank, (ranks, os.path.join(folder, "meet"), results), nprocs=ranks)
        return list(results)


@check
def ddp_one_gpu():
    return ddp(1)


@check
def ddp_two_gpus():
    two_gpus()
    return ddp(2)


def between_guests(devices):
    """A rank on each device, each in a guest of its own: to NCCL a host of its own, which it reaches by sockets."""
    guest = shlex.split(os.environ.get("ANOTHER_GUEST", ""))
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([*guest, sys.executable, __file__, "--rank", str(r), str(len(devices)), os.path.join(folder, "meet"), str(d)], stdout=subprocess.PIPE,
                                  text=True, env={**os.environ, "NCCL_HOSTID": f"guest{r}", "NCCL_SOCKET_IFNAME": "lo"}) for r, d in enumerate(devices)]
        try:
            out = [r.communicate(timeout=60)[0] for r in ranks]
        finally:
            for r in ranks:
                r.kill()
    if any(r.returncode for r in ranks):
        raise RuntimeError(f"the ranks ended with {[r.returncode for r in ranks]}")
    return json.loads(next(line for line in out[0].splitlines() if line.startswith("[")))


@check
def ddp_between_guests():
    return between_guests([0, 0])


@check
def ddp_between_guests_on_two_gpus():
    two_gpus()
    return between_guests([0, 1])


def endless_rank(rank, where, working):
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{where}", rank=rank, world_size=2)
    values = torch.zeros(1 << 20, device=rank)
    while True:
        dist.all_reduce(values)
        torch.cuda.synchronize()
        working[rank].set()


@check
def ddp_killed():
    """One rank is killed in the midst of all-reduces, then the one that waits for it in vain; the next job is as any other."""
    two_gpus()
    context = torch.multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        working = [context.Event() for _ in range(2)]
        ranks = [context.Process(target=endless_rank, args=(r, os.path.join(folder, "meet"), working), daemon=True) for r in range(2)]
        for r in ranks:
            r.start()
        worked = [w.wait(60) for w in working]
        for r in reversed(ranks):
            r.kill()
            r.join(10)
    return [worked, [r.exitcode for r in ranks], ddp(2)]


@check
def peer_copies():
    two_gpus()
    a = random(1 << 20)
    b = a.to("cuda:1")
    c = (b * 2).to("cuda:0")
    return total(b.cpu(), c, c - 2 * a)


@check
def data_parallel():
    two_gpus()
    return total(nn.DataParallel(nn.Linear(64, 32).to(GPU))(random(40, 64)).detach())


if __name__ == "__main__" and sys.argv[1:2] == ["--rank"]:
    rank, ranks, where, device = sys.argv[2:]
    told = []
    ddp_rank(int(rank), int(ranks), where, told, int(device))
    print(json.dumps(told), flush=True)
elif __name__ == "__main__":
    main(lambda: torch.manual_seed(1), torch.cuda.synchronize)
