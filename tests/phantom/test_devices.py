"""The devices that the settings ask for."""

import subprocess

import pytest

DESCRIBE = """
devices = [torch.cuda.get_device_properties(i)
           for i in range(torch.cuda.device_count())]
result = [[d.name, d.major, d.minor, d.total_memory, d.multi_processor_count,
           d.warp_size, d.L2_cache_size, d.max_threads_per_multi_processor,
           d.regs_per_multiprocessor, d.shared_memory_per_block,
           d.shared_memory_per_block_optin, d.shared_memory_per_multiprocessor]
          for d in devices]
"""


@pytest.mark.parametrize("device, expected", [
    ("A100-40G", ["NVIDIA A100-SXM4-40GB", 8, 0, 40339 << 20, 108, 32, 40 << 20,
                  2048, 65536, 48 << 10, 163 << 10, 164 << 10]),
    ("RTX4090-24G", ["NVIDIA GeForce RTX 4090", 8, 9, 24217 << 20, 128, 32,
                     72 << 20, 1536, 65536, 48 << 10, 99 << 10, 100 << 10]),
    ("H100-80G", ["NVIDIA H100 80GB HBM3", 9, 0, 81007 << 20, 132, 32, 50 << 20,
                  2048, 65536, 48 << 10, 227 << 10, 228 << 10]),
])
def test_a_device_is_described_as_its_model(phantom, device, expected):
    assert phantom.run(DESCRIBE, CKPT_PHANTOM_DEVICE=device).result == [expected]


def test_name_capability_and_memory_can_be_set_one_by_one(phantom):
    (device,) = phantom.run(
        DESCRIBE, CKPT_PHANTOM_DEVICE="T4-16G", CKPT_PHANTOM_NAME="Mine",
        CKPT_PHANTOM_CAPABILITY="9.0", CKPT_PHANTOM_MEMORY="3G").result
    assert device[:4] == ["Mine", 9, 0, 3 << 30]
    assert device[-1] == 228 << 10


def test_each_of_several_devices_has_its_own_memory(phantom):
    free = phantom.run("""
        before = [torch.cuda.mem_get_info(i)[0] for i in range(3)]
        x = torch.empty(100 << 20, dtype=torch.uint8, device="cuda:1")
        y = x.to("cuda:2")
        result = [before[i] - torch.cuda.mem_get_info(i)[0] for i in range(3)]
        assert y.device.index == 2 and torch.cuda.current_device() == 0
        assert torch.cuda.can_device_access_peer(0, 1)
        """, CKPT_PHANTOM_COUNT="3").result
    assert free == [0, 100 << 20, 100 << 20]


COUNT = """
count = ctypes.c_int(-1)
status = ctypes.CDLL(None).cudaGetDeviceCount(ctypes.byref(count))
result = [status, count.value]
"""

IDENTITIES = COUNT + """
result = []
for device in range(count.value):
    bus = ctypes.c_int(-1)
    assert not ctypes.CDLL(None).cudaDeviceGetAttribute(
        ctypes.byref(bus), 33, device)      # cudaDevAttrPciBusId
    result.append(bus.value - 1)
"""


@pytest.mark.parametrize("visible, expected", [
    ("2,0", [2, 0]),
    (" 1 , 3", [1, 3]),
    ("1,9,0", [1]),
    ("1,0,1", []),
    ("GPU-7068616e-746f-6d00-0000-000000000002", [2]),
    ("", []),
    ("-1", []),
])
def test_cuda_visible_devices_chooses_among_them(phantom, visible, expected):
    assert phantom.run(IDENTITIES, torch=False, CKPT_PHANTOM_COUNT="4",
                       CUDA_VISIBLE_DEVICES=visible).result == expected


def test_torch_counts_the_visible_devices(phantom):
    assert phantom.run("""
        result = [torch.cuda.device_count(),
                  [torch.cuda.get_device_properties(i).pci_bus_id for i in (0, 1)]]
        """, CKPT_PHANTOM_COUNT="4", CUDA_VISIBLE_DEVICES="3,1").result == [
            2, [4, 2]]


def test_with_no_device_torch_finds_none(phantom):
    assert phantom.run("result = [torch.cuda.is_available(), "
                       "torch.cuda.device_count()]",
                       CKPT_PHANTOM_COUNT="0").result == [False, 0]


@pytest.mark.parametrize("variable, value, accepted", [
    ("DEVICE", "H100", "H100-80G"),
    ("COUNT", "17", "0 to 16"),
    ("COUNT", "", "0 to 16"),
    ("MEMORY", "lots", "64M to 1T"),
    ("MEMORY", "1M", "64M to 1T"),
    ("CAPABILITY", "3.5", "9.0"),
    ("CAPABILITY", "9.0a", "9.0"),
    ("CONTEXT", "-1", "0, or bytes"),
    ("CONTEXT", "100T", "less than the memory"),
    ("COPY_MAX", "1x", "0, or bytes"),
    ("NAME", "", "1 to 255 bytes"),
    ("STRICT", "yes", "0, 1"),
    ("TRACE", "2", "0, 1"),
])
def test_a_bad_setting_is_named_and_leaves_no_device(phantom, variable, value,
                                                     accepted):
    job = phantom.run(COUNT, torch=False, **{f"CKPT_PHANTOM_{variable}": value})
    assert job.result == [100, 0]   # cudaErrorNoDevice
    (line,) = job.said
    assert line.startswith(f"phantom: CKPT_PHANTOM_{variable}={value} is not ")
    assert accepted in line


def test_the_versions_are_those_that_torch_was_built_for(phantom):
    runtime, wanted, cudnn, compiled, required = phantom.run("""
        import importlib.metadata
        runtime = ctypes.c_int()
        ctypes.CDLL(None).cudaRuntimeGetVersion(ctypes.byref(runtime))
        result = [runtime.value, torch.version.cuda,
                  torch.backends.cudnn.version(),
                  torch._C._cudnn.getCompileVersion(),
                  importlib.metadata.requires("torch")]
        """).result
    assert f"{runtime // 1000}.{runtime % 1000 // 10}" == wanted
    number = f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}"
    assert any(f"cudnn-cu{runtime // 1000}=={number}." in line for line in required)
    assert cudnn // 100 >= compiled[0] * 100 + compiled[1]


def test_no_other_library_of_nvidia_is_loaded(phantom, tmp_path):
    """Even where the search path has some: a decoy ends a process that loads it."""
    decoy = tmp_path / "decoy.c"
    decoy.write_text("#include <stdlib.h>\n"
                     "__attribute__((constructor)) void c(void) { abort(); }\n")
    for library in phantom.folder.glob("lib*.so.*"):
        subprocess.run(["gcc", "-shared", "-fPIC", str(decoy), "-o",
                        str(tmp_path / library.name)], check=True)
    maps, asked = phantom.run("""
        class Place(ctypes.Structure):
            _fields_ = [("path", ctypes.c_char_p), ("base", ctypes.c_void_p),
                        ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]
        torch.ones(1, device="cuda")
        everywhere, place = ctypes.CDLL(None), Place()
        called = ctypes.cast(everywhere.cublasLtMatmul, ctypes.c_void_p)
        assert everywhere.dladdr(called, ctypes.byref(place))
        result = [[line.split()[-1] for line in open("/proc/self/maps")],
                  place.path.decode()]
        """, LD_LIBRARY_PATH=str(tmp_path)).result
    nvidia = ("libcu", "libnccl", "libnv")
    loaded = {path for path in maps if path.rsplit("/")[-1].startswith(nvidia)}
    others = {path for path in loaded if not path.startswith(str(phantom.folder))}
    assert loaded - others and asked.startswith(str(phantom.folder))
    # Where it is installed, torch itself opens this one by its path.
    assert all("/nvidia/" in path and "libcublasLt" in path for path in others)
