# SPDX-License-Identifier: Apache-2.0
"""distributed.py: PyTorch on several GPUs, a process each, with random weights. Run by ranks.py; rank 0 tells. (What an application is:
application.py.)

    python3 ranks.py --ranks N distributed.py [--cpu] [NAME...]      --cpu: by gloo on the processor, to see that the code works

Weights and inputs are the same in each run, so results are: except for sums that a library takes in any order.
"""
import datetime
import os
import sys
import traceback

from application import APPLICATIONS, CPU, Skipped, application, measured, tell

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch import nn
except ImportError as e:
    print(f"PyTorch is left out: {e}", file=sys.stderr)
    sys.exit(77)
RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("RANKS", 1))
if not CPU and torch.cuda.device_count() < RANKS:
    print(f"PyTorch is left out: it sees {torch.cuda.device_count()} GPUs, not {RANKS}", file=sys.stderr)
    sys.exit(77)
GPU = torch.device("cpu") if CPU else torch.device("cuda", RANK)
WIDTH, LAYERS = (64, 2) if CPU else (2048, 8)


def total(value):
    """The sum of all ranks."""
    value = value.detach().double().clone()
    dist.all_reduce(value)
    return value.item()


# ---- training --------------------------------------------------------------------------------------------------------
def layers():
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS)), nn.Linear(WIDTH, 8)).to(GPU)


def training(model):
    """Each rank has a batch of its own; the numbers are the first losses, over all ranks, and what became of the weights."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    torch.manual_seed(10 + RANK)
    x, losses = torch.randn(64, WIDTH, device=GPU), []

    def step():
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())

    def result():
        weights = sum((p.detach().double().sum() for p in model.parameters()), torch.zeros((), dtype=torch.double, device=GPU))
        return [[total(loss) for loss in losses[:4]], total(weights)]
    return step, result


@application(steps=10)
def ddp_step():
    """A step of training with the whole model on each GPU."""
    return training(nn.parallel.DistributedDataParallel(layers(), device_ids=None if CPU else [RANK]))


@application(steps=10)
def fsdp_step():
    """The same with a part of the weights on each: gathered for each layer, forward and backward."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    return training(FullyShardedDataParallel(layers(), auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}), device_id=None if CPU else RANK))


# ---- a model that is divided -----------------------------------------------------------------------------------------
class Divided(nn.Module):
    """A block of a transformer with `heads` heads, of which each rank has its part: a sum over all ranks joins them after each half."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads, self.size = heads // RANKS, width // heads
        mine = width // RANKS
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)

        def part(rows, columns, axis):
            """Of one matrix, which all ranks make alike, this rank's rows or columns."""
            return nn.Parameter((torch.randn(rows, columns, device=GPU) / columns ** 0.5).chunk(RANKS, axis)[RANK].contiguous())
        self.three = nn.ParameterList([part(width, width, 0) for _ in range(3)])
        self.out, self.up, self.down = part(width, width, 1), part(4 * width, width, 0), part(width, 4 * width, 1)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, self.heads, length, mine // self.heads))

    def forward(self, x, place):
        y = self.before(x)
        q, k, v = (F.linear(y, w).view(1, 1, self.heads, self.size).transpose(1, 2) for w in self.three)
        self.keys[:, :, place:place + 1], self.values[:, :, place:place + 1] = k, v
        seen = F.scaled_dot_product_attention(q, self.keys[:, :, :place + 1], self.values[:, :, :place + 1])
        y = F.linear(seen.transpose(1, 2).reshape(1, 1, -1), self.out)
        dist.all_reduce(y)
        x = x + y
        y = F.linear(F.gelu(F.linear(self.between(x), self.up)), self.down)
        dist.all_reduce(y)
        return x + y


@application(steps=1, per=4 if CPU else 32, warm=1)
def tensor_parallel_token():
    """A token of 32, each the likeliest; a model of 8 blocks of which each GPU has a part."""
    heads, tokens, names = 16, 4 if CPU else 32, 8192
    if heads % RANKS:
        raise Skipped(f"{heads} heads on {RANKS} GPUs")
    blocks = nn.ModuleList([Divided(WIDTH, heads, tokens) for _ in range(LAYERS)]).to(GPU)
    embedding, head = (m.to(GPU) for m in (nn.Embedding(names, WIDTH), nn.Linear(WIDTH, names, bias=False)))
    written = []

    @torch.no_grad()
    def step():
        written.clear()
        token = torch.zeros(1, 1, dtype=torch.long, device=GPU)
        for place in range(tokens):
            x = embedding(token)
            for block in blocks:
                x = block(x, place)
            token = head(x).argmax(-1)
            written.append(token.item())
    return step, lambda: list(written)


# ---- the program -----------------------------------------------------------------------------------------------------
def main():
    names = [n for n in sys.argv[1:] if n != "--cpu"]
    wait = (lambda: None) if CPU else torch.cuda.synchronize
    if not CPU:
        torch.cuda.set_device(RANK)
    dist.init_process_group("gloo" if CPU else "nccl", init_method=f"file://{os.environ['MEET']}/meet", rank=RANK, world_size=RANKS,
                            timeout=datetime.timedelta(seconds=60))
    if RANK == 0:
        tell(device="processor" if CPU else torch.cuda.get_device_name(0))
    for name in names or APPLICATIONS:
        torch.manual_seed(1)
        try:
            told = measured(*APPLICATIONS[name], wait)
            if RANK == 0:
                tell(metric="app_" + name, **told)
        except (Skipped, ImportError) as e:  # all ranks alike
            print(f"{name} is left out: {e}", file=sys.stderr)
        except Exception as e:  # noqa: BLE001: the others wait for this rank; ranks.py ends them
            traceback.print_exc()
            if RANK == 0:
                tell(metric="app_" + name, failed=f"{type(e).__name__}: {e}"[:200].replace("\n", " "))
            os._exit(1)
    dist.destroy_process_group()


os.environ["NCCL_NVLS_ENABLE"] = "0"  # NVLink's multicast stays off
main()
