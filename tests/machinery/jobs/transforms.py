"""Jobs that use torch.func, forward-mode AD and other ways through a model."""

import torch
import torch.autograd.forward_ad as fwAD
import torch.nn.functional as F
from common import Tower, batch, loss_of, main, sgd, table
from torch.func import functional_call, grad, grad_and_value, jvp, vjp, vmap


def between(model, record, steps, extra, late=2):
    """A plain training loop; from step late on, extra(step) stands in it."""
    x, optimizer = batch(), sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        value = loss_of(model, x)
        if step >= late:
            extra(step, x)
        value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def functional(steps, record):
    """Gradients by torch.func of a functional call, on the live model."""
    model = Tower(4, dropout=0.0)

    def extra(step, x):
        parameters = dict(model.named_parameters())

        def loss(parameters, x):
            return F.mse_loss(functional_call(model, parameters, (x,)), x)
        gradients, value = grad_and_value(loss)(parameters, x)
        record.number(f"{step} value", value.item())
        for name, tensor in gradients.items():
            record.tensor(f"{step} func {name}", tensor)
    between(model, record, steps, extra)


def swapped(steps, record):
    """Trains other weights through functional_call and autograd."""
    model, x = Tower(4, dropout=0.0), batch()
    weights = {name: p.detach().clone().requires_grad_()
               for name, p in model.named_parameters()}
    optimizer = torch.optim.SGD(weights.values(), lr=0.05, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        value = F.mse_loss(functional_call(model, weights, (x,)), x.roll(1, 0))
        value.backward()
        record.number(f"{step} loss", value.item())
        for name, p in weights.items():
            record.tensor(f"{step} gradient {name}", p.grad)
        optimizer.step()
    record.weights(model)


def tied(steps, record):
    """functional_call with weights that are functions of others."""
    model, x = Tower(4, dropout=0.0), batch()
    scale = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([scale, *model.parameters()], lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        weights = {name: p * scale for name, p in model.named_parameters()}
        value = F.mse_loss(functional_call(model, weights, (x,)), x.roll(1, 0))
        value.backward()
        record.number(f"{step} loss", value.item())
        record.tensor(f"{step} scale", scale.grad)
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def per_sample(steps, record):
    """vmap over samples of a gradient."""
    model = Tower(4, dropout=0.0)

    def extra(step, x):
        parameters = {n: p.detach() for n, p in model.named_parameters()}

        def loss(parameters, row):
            return functional_call(model, parameters, (row[None],)).square().mean()
        rows = vmap(grad(loss), (None, 0))(parameters, x[:3])
        for name, tensor in rows.items():
            record.tensor(f"{step} rows {name}", tensor)
    between(model, record, steps, extra)


def vmapped_only(steps, record):
    """Every step's gradients are the mean of those of vmap."""
    model, x = Tower(4, dropout=0.0), batch()
    optimizer = sgd(model)

    def loss(parameters, row):
        out = functional_call(model, parameters, (row[None],))
        return (out - row[None]).square().mean()
    for step in range(steps):
        parameters = {n: p.detach() for n, p in model.named_parameters()}
        rows = vmap(grad(loss), (None, 0))(parameters, x)
        for name, p in model.named_parameters():
            p.grad = rows[name].mean(0)
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def products(steps, record):
    """vjp and jvp through the model."""
    model = Tower(4, dropout=0.0)

    def extra(step, x):
        out, pull = vjp(model, x)
        record.tensor(f"{step} vjp", pull(torch.ones_like(out))[0])
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            record.tensor(f"{step} jvp", jvp(model, (x,), (x.cos(),))[1])
    between(model, record, steps, extra)


def forward_mode(steps, record):
    """Dual numbers through the live model, with gradients on."""
    model = Tower(4, dropout=0.0)

    def extra(step, x):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), \
                fwAD.dual_level():
            out = model(fwAD.make_dual(x, x.sin()))
            tangent = fwAD.unpack_dual(out).tangent
            record.tensor(f"{step} tangent", tangent)
            (out * 0.5).square().mean().backward()
    between(model, record, steps, extra)


def ensembled(steps, record):
    """Three models of a stacked state, under vmap, with a plain loss backward."""
    models = [Tower(3, dropout=0.0) for _ in range(3)]
    parameters, _ = torch.func.stack_module_state(models)
    base, x = models[0], batch()
    optimizer = torch.optim.SGD(parameters.values(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        out = vmap(lambda p: functional_call(base, p, (x,)))(parameters)
        value = out.square().mean()
        value.backward()
        record.number(f"{step} loss", value.item())
        for name, p in parameters.items():
            record.tensor(f"{step} gradient {name}", p.grad)
        optimizer.step()


def second_order(steps, record):
    """A gradient penalty with create_graph in every other step."""
    model, x = Tower(4, dropout=0.0), batch()
    optimizer = sgd(model)
    for step in range(steps + 2):
        optimizer.zero_grad()
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            y = x.clone().requires_grad_()
            value = loss_of(model, y)
            if step % 2:
                slope, = torch.autograd.grad(value, y, create_graph=True)
                value = value + slope.square().sum()
            value.backward()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def hessian(steps, record):
    """A Hessian-vector product by reverse over reverse after the loss's backward."""
    model = Tower(3, dropout=0.0)

    def extra(step, x):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            parameters = list(model.parameters())
            first = torch.autograd.grad(loss_of(model, x), parameters,
                                        create_graph=True)
            product = torch.autograd.grad(
                first, parameters, [g.detach().cos() for g in first],
                allow_unused=True)
        for place, tensor in enumerate(product):
            record.tensor(f"{step} product {place}", tensor)
    between(model, record, steps, extra)


def retained(steps, record):
    """The graph is kept for three backwards, the last one for some inputs only."""
    model, x = Tower(4), batch()
    optimizer = sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        out = model(x)
        out.square().mean().backward(retain_graph=True)
        record.gradients(f"{step} first", model)
        out.sum().backward(retain_graph=True)
        parts = torch.autograd.grad(out.mean(), [model.h[1].up.weight])
        record.tensor(f"{step} part", parts[0])
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


def other_threads(steps, record):
    """The backward runs on another thread; forwards of two threads meet."""
    import threading
    model, x = Tower(4, dropout=0.0), batch()
    optimizer = sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        value = loss_of(model, x)
        thread = threading.Thread(target=value.backward)
        thread.start()
        thread.join()
        record.number(f"{step} loss", value.item())
        record.gradients(step, model)
        optimizer.step()
    record.weights(model)


JOBS = table(functional, swapped, tied, per_sample, vmapped_only, products,
             forward_mode, ensembled, second_order, hessian, retained, other_threads)

if __name__ == "__main__":
    main(JOBS, __doc__)
