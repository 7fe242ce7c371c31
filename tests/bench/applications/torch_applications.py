# SPDX-License-Identifier: Apache-2.0
"""PyTorch, with models of random weights. (How to run them: application.py.)"""
import contextlib
import json
import subprocess
import sys

from application import CPU, Skipped, application, main

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as e:
    print(f"PyTorch is left out: {e}", file=sys.stderr)
    sys.exit(77)
if not CPU and not torch.cuda.is_available():
    print("PyTorch is left out: it sees no GPU", file=sys.stderr)
    sys.exit(77)
GPU = "cpu" if CPU else "cuda"
TOKENS = 2 if CPU else 32


def there():
    """New tensors are the GPU's: a model is made there, not copied."""
    return contextlib.nullcontext() if CPU else torch.device(GPU)


# ---- training --------------------------------------------------------------------------------------------------------
@application(steps=8)
def resnet50_step():
    """A step of training: 32 images of 224 x 224 in single precision."""
    import torchvision
    side, batch = (32, 2) if CPU else (224, 32)
    with there():
        model = torchvision.models.resnet50()
    optimizer = torch.optim.SGD(model.parameters(), 0.001, momentum=0.9)
    images, labels = torch.randn(batch, 3, side, side, device=GPU), torch.randint(1000, (batch,), device=GPU)
    losses = []

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return step, lambda: [x.item() for x in losses[:2]]


class Images(torch.utils.data.Dataset):
    """Images as a decoder leaves them: bytes, made numbers by the worker that has them."""

    def __init__(self):
        self.images = torch.randint(256, (256, 3, 224, 224), dtype=torch.uint8)

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        return self.images[i % len(self.images)].float().div_(255)


@application(steps=16, warm=8)
def dataloader_batch():
    """A batch of 64 images from four workers, by pinned memory, to the GPU."""
    loader = iter(torch.utils.data.DataLoader(Images(), batch_size=64, num_workers=4, pin_memory=not CPU))
    means = []

    def step():
        means.append(next(loader).to(GPU, non_blocking=True).mean())
    return step, lambda: [x.item() for x in means[:4]]


# ---- token generation ------------------------------------------------------------------------------------------------
class Block(nn.Module):
    """One of GPT-2, for a token at a time. Keys and values of `length` places stay where they are, as a graph wants it."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.before, self.between, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, heads, length, width // heads))

    def forward(self, x, at, later):
        q, k, v = (t.transpose(1, 2) for t in self.three(self.before(x)).view(1, 1, 3, self.heads, -1).unbind(2))
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        scores = (q @ self.keys.transpose(2, 3) * q.shape[-1] ** -0.5).masked_fill(later, -1e9)
        x = x + self.out((scores.softmax(-1) @ self.values).transpose(1, 2).reshape(1, 1, -1))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Gpt2(nn.Module):
    """GPT-2's shape, 124 million parameters."""

    def __init__(self, width=768, layers=12, words=50257, length=256):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 12, length) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        self.register_buffer("all", torch.arange(length))

    def forward(self, token, at):
        x, later = self.words(token) + self.places(at), self.all > at
        for block in self.blocks:
            x = block(x, at, later)
        return (self.last(x) @ self.words.weight.t()).argmax(-1)


def tokens(graphs):
    with there():
        model = Gpt2().eval()
    token, at, written = torch.zeros(1, 1, dtype=torch.long, device=GPU), torch.zeros(1, dtype=torch.long, device=GPU), []

    def one():
        with torch.no_grad():
            token.copy_(model(token, at))
            at.add_(1)
    if graphs:
        if CPU:
            raise Skipped("graphs are the GPU's")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            one()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            one()

    def step():
        for _ in range(TOKENS):
            graph.replay() if graphs else one()
            written.append(token.item())  # as one that shows each
    return step, lambda: [*written[:TOKENS], *(block.keys.double().abs().mean().item() for block in model.blocks)]


@application(steps=1, per=TOKENS, warm=1, emulated=True)
def gpt2_token_eager():
    return tokens(graphs=False)


@application(steps=1, per=TOKENS, warm=1, emulated=True)
def gpt2_token_graphs():
    return tokens(graphs=True)


@application(steps=1, per=TOKENS, warm=1)
def gpt2_generate_token():
    """transformers' generate()."""
    import transformers
    with there():
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).to(GPU).eval()
    prompt, written = torch.arange(8, device=GPU).reshape(1, 8), []

    def step():
        written.append(model.generate(prompt, attention_mask=torch.ones_like(prompt), min_new_tokens=TOKENS, max_new_tokens=TOKENS, do_sample=False, pad_token_id=0))
    return step, lambda: written[0][0].tolist()


# ---- cuBLAS ----------------------------------------------------------------------------------------------------------
def gemm(n, per):
    a, b, c = (torch.randn(n, n, device=GPU) for _ in range(3))

    def step():
        for _ in range(2 if CPU else per):
            torch.mm(a, b, out=c)
    return step, lambda: [c.double().abs().mean().item()]


@application(steps=5, per=2000, unit="us", warm=1, emulated=True)
def gemm_256():
    return gemm(256, 2000)


@application(steps=3, per=500, unit="us", warm=1, emulated=True)
def gemm_1024():
    return gemm(256 if CPU else 1024, 500)


@application(steps=1, per=30, unit="us", warm=1, emulated=True)
def gemm_4096():
    return gemm(256 if CPU else 4096, 30)


# ---- first uses ------------------------------------------------------------------------------------------------------
FIRST_USES = """
import json, sys, torch
torch.manual_seed(1)
a = torch.randn(512, 512, device=sys.argv[1])
images, filters = a.view(4, 4, 128, 128), a[:8, :36].reshape(8, 4, 3, 3)
uses = [a @ a, (a.half() @ a.half()).float(), torch.nn.functional.conv2d(images, filters), torch.fft.rfft(a).abs(),
        torch.linalg.solve(a + 512 * torch.eye(512, device=a.device), a), a.sort().values.cumsum(1)]
print(json.dumps([x.double().abs().mean().item() for x in uses]))
"""


@application(steps=1, warm=0)
def first_uses():
    """A process that imports PyTorch, and multiplies, convolves, transforms, solves and sorts, each for the first time."""
    numbers = []

    def step():
        done = subprocess.run([sys.executable, "-B", "-c", FIRST_USES, GPU], stdout=subprocess.PIPE, text=True, check=True)
        numbers[:] = json.loads(done.stdout)
    return step, lambda: numbers


def wait():
    if not CPU:
        torch.cuda.synchronize()


main("the processor" if CPU else torch.cuda.get_device_name(), wait, lambda: torch.manual_seed(1))
