# SPDX-License-Identifier: Apache-2.0
"""JAX. (How to run them: checks.py.)"""
import jax
import jax.numpy as jnp

from checks import Skipped, check, main

KEY = jax.random.key(1)


def random(*shape, dtype=jnp.float32):
    return jax.random.normal(KEY, shape, dtype)


def total(*arrays):
    return [[float(jnp.sum(a.astype(jnp.float32))), float(jnp.sum(jnp.abs(a.astype(jnp.float32))))] for a in arrays]


@check
def on_the_gpu():
    return [jax.devices()[0].platform == "gpu", len(jax.devices())]


@check
def dot():
    return [total(a @ a) for a in (random(300, 300), random(300, 300, dtype=jnp.bfloat16), random(300, 300, dtype=jnp.float16))]


@check
def fft():
    x = random(32, 500)
    return total(jnp.abs(jnp.fft.fft(x)), jnp.abs(jnp.fft.rfft2(x)), jnp.real(jnp.fft.ifft(jnp.fft.fft(x))))


@check
def convolution():
    return total(jax.lax.conv(random(4, 3, 32, 32), random(8, 3, 3, 3), (1, 1), "SAME"))


@check
def linalg():
    a = random(64, 64)
    s = a @ a.T + 64 * jnp.eye(64)
    return total(jnp.linalg.cholesky(s), jnp.linalg.solve(s, a), jnp.linalg.svd(a, compute_uv=False), jnp.linalg.eigvalsh(s), jnp.abs(jnp.linalg.qr(a)[1]))


@check
def gradient():
    w = random(64, 32)
    f = jax.jit(jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w) ** 2)))
    return total(f(w, random(16, 64)))


@check
def scan():
    def step(carry, x):
        carry = jnp.tanh(carry @ w + x)
        return carry, carry.sum()
    w = random(32, 32) * 0.1
    last, sums = jax.lax.scan(step, jnp.zeros(32), random(100, 32))
    return total(last, sums)


@check
def control_flow():
    f = jax.jit(lambda x: jax.lax.while_loop(lambda v: jnp.sum(v) < 1e6, lambda v: v * 1.5 + 1, x))
    g = jax.jit(lambda p, x: jax.lax.cond(p, lambda v: v + 1, lambda v: v - 1, x))
    return total(f(jnp.ones(100)), g(True, jnp.ones(5)), g(False, jnp.ones(5)))


@check
def graphs_with_conditions():
    """Loops that XLA makes conditional nodes of: several graphs at a time have some."""
    loops = [jax.jit(lambda v, n=n: jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1]) + 1), (0, v))) for n in (10, 50, 90)]
    return total(*(f(random(1000))[1] for _ in range(3) for f in loops))


@check
def nuts():
    try:
        import numpyro
        import numpyro.infer
    except ImportError:
        raise Skipped("NumPyro is not installed") from None
    from numpyro import distributions

    def model(y):
        mean = numpyro.sample("mean", distributions.Normal(0, 5))
        deviation = numpyro.sample("deviation", distributions.HalfNormal(2))
        numpyro.sample("y", distributions.Normal(mean, deviation), obs=y)
    chain = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=100, num_samples=100, progress_bar=False)
    chain.run(jax.random.PRNGKey(0), jnp.array([1.0, 2.0, 1.5, 1.2]))
    return total(chain.get_samples()["mean"])


@check
def sort_and_random():
    x = random(100_000)
    return total(jnp.sort(x)[::1000], jnp.cumsum(x)[::1000], jax.random.permutation(KEY, 1000)[:10], jax.random.uniform(KEY, (100,)))


@check
def vmap():
    return total(jax.vmap(lambda a, b: a @ b)(random(8, 32, 32), random(8, 32, 32)))


@check
def training():
    params = [random(64, 128) * 0.1, random(128, 10) * 0.1]
    x = random(32, 64)

    def loss(p):
        return jnp.mean((jax.nn.relu(x @ p[0]) @ p[1]) ** 2)
    step = jax.jit(lambda p: jax.tree.map(lambda w, g: w - 0.1 * g, p, jax.grad(loss)(p)))
    losses = []
    for _ in range(5):
        losses.append(float(loss(params)))
        params = step(params)
    return losses


@check
def host_callback():
    import numpy as np
    f = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1)
    return total(f(random(100)))


@check
def sharded():
    if len(jax.devices()) < 2:
        raise Skipped("one GPU")
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    mesh = Mesh(jax.devices()[:2], ("x",))
    a = jax.device_put(random(512, 256), NamedSharding(mesh, PartitionSpec("x", None)))
    b = jax.jit(lambda v: v @ v.T)(a)
    p = jax.pmap(lambda v: jax.lax.psum(v, "i"), axis_name="i", devices=jax.devices()[:2])(random(2, 1000))
    return [total(b), total(p)]


if __name__ == "__main__":
    main()
