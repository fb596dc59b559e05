"""Expandable segments: torch maps and unmaps memory through the driver."""

CONF = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def test_segments_grow_in_place_and_shrink(phantom):
    job = phantom.run("""
        def now():
            free, total = torch.cuda.mem_get_info()
            return [torch.cuda.memory_allocated() >> 20,
                    torch.cuda.memory_reserved() >> 20, (total - free) >> 20]
        torch.cuda.init()
        steps = [now()]
        x = torch.empty(50 << 20, dtype=torch.uint8, device="cuda")
        steps.append(now())
        y = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
        steps.append(now())
        kinds = [[s["is_expandable"], s["total_size"] >> 20]
                 for s in torch.cuda.memory_snapshot()]
        del y
        torch.cuda.empty_cache()
        steps.append(now())
        del x
        torch.cuda.empty_cache()
        steps.append(now())
        result = [steps, kinds]
        """, CKPT_PHANTOM_CONTEXT="0", **CONF)
    steps, kinds = job.result
    assert "nvml" not in job.stderr     # torch warns where it gets no answer
    assert steps == [[0, 0, 0], [50, 60, 60], [150, 160, 160], [50, 60, 60],
                     [0, 0, 0]]
    assert kinds == [[True, 160]]


def test_out_of_memory_can_be_survived(phantom):
    message, reserved = phantom.run("""
        x = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
        try:
            torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            message = str(error)
        del x
        y = torch.empty(900 << 20, dtype=torch.uint8, device="cuda")
        result = [message, torch.cuda.memory_reserved() >> 20]
        """, CKPT_PHANTOM_MEMORY="1G", CKPT_PHANTOM_CONTEXT="0", **CONF).result
    assert message.startswith("CUDA out of memory. Tried to allocate 600.00 MiB.")
    assert reserved == 900


def test_fragments_become_one_segment(phantom):
    """What cudaMalloc's segments cannot do: free neighbours serve a larger one."""
    code = """
        x = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
             for _ in range(9)]
        del x[1::2]
        y = torch.empty(180 << 20, dtype=torch.uint8, device="cuda")
        result = torch.cuda.memory_reserved() >> 20
        """
    settings = {"CKPT_PHANTOM_MEMORY": "1G", "CKPT_PHANTOM_CONTEXT": "0"}
    assert phantom.run(code, **settings, **CONF).result <= 900


VMM = """
lib = ctypes.CDLL("libcuda.so.1")
U64 = ctypes.c_uint64
GRAIN = 2 << 20
class Prop(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("type", "handles", "where", "id")] + [
        ("meta", ctypes.c_void_p), ("flags", ctypes.c_uint8 * 8)]
def reserve(size):
    address = U64()
    status = lib.cuMemAddressReserve(ctypes.byref(address), U64(size), U64(0), U64(0),
                                     U64(0))
    return status, address.value
def create(size, prop=Prop(1, 0, 1, 0)):
    handle = U64()
    status = lib.cuMemCreate(ctypes.byref(handle), U64(size), ctypes.byref(prop),
                             U64(0))
    return status, handle.value
def map_at(address, size, handle):
    return lib.cuMemMap(U64(address), U64(size), U64(0), U64(handle), U64(0))
def access(address, size):
    return lib.cuMemSetAccess(U64(address), U64(size), ctypes.byref(Prop()), U64(1))
def unmap(address, size):
    return lib.cuMemUnmap(U64(address), U64(size))
def release(handle):
    return lib.cuMemRelease(U64(handle))
def free():
    free, total = U64(), U64()
    ctypes.CDLL(None).cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    return free.value // GRAIN
"""


def test_memory_is_free_again_when_released_and_unmapped(phantom):
    assert phantom.run(VMM + """
before = free()
_, address = reserve(8 * GRAIN)
_, handle = create(2 * GRAIN)
created = before - free()
mapped = [map_at(address, 2 * GRAIN, handle), access(address, 2 * GRAIN)]
ctypes.memset(address, 1, 2 * GRAIN)
released = [release(handle), before - free()]
unmapped = [unmap(address, 2 * GRAIN), before - free()]
result = [created, mapped, released, unmapped, release(handle),
          lib.cuMemAddressFree(U64(address), U64(8 * GRAIN))]
""", torch=False).result == [2, [0, 0], [0, 2], [0, 0], 1, 0]


def test_wrong_uses_are_refused(phantom):
    assert phantom.run(VMM + """
_, address = reserve(4 * GRAIN)
_, handle = create(GRAIN)
_, other = create(GRAIN)
result = {
    "not whole grains": [reserve(1)[0], create(GRAIN + 1)[0]],
    "no device": create(GRAIN, Prop(1, 0, 1, 7))[0],
    "too much": create(1 << 45)[0],
    "not reserved": map_at(address + 8 * GRAIN, GRAIN, handle),
    "larger than the memory": map_at(address, 2 * GRAIN, handle),
    "no handle": map_at(address, GRAIN, 0),
    "mapped twice": [map_at(address, GRAIN, handle), map_at(address, GRAIN, other)],
    "access to nothing": access(address + GRAIN, GRAIN),
    "reserved and in use": lib.cuMemAddressFree(U64(address), U64(4 * GRAIN)),
    "half of a mapping": unmap(address, GRAIN // 2),
    "not mapped": unmap(address + GRAIN, GRAIN),
}
""", torch=False).result == {
        "not whole grains": [1, 1], "no device": 101, "too much": 2,
        "not reserved": 1, "larger than the memory": 1, "no handle": 1,
        "mapped twice": [0, 1], "access to nothing": 1, "reserved and in use": 1,
        "half of a mapping": 1, "not mapped": 1}
