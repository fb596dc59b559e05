"""The answers in the tables are what the stubs give, and nothing else."""

import elf
import tables

# In a process without torch: the stubs alone. Every argument that a table says
# is written gets a buffer full of a pattern; what was written is looked at.
CALL = """
import glob
patterned, found = bytes([0xa5] * 1024), {}
folder, wanted = FOLDER, WANTED
ctypes.CDLL(folder + "/libphantom.so", ctypes.RTLD_GLOBAL)
for soname, functions in wanted.items():
    library = ctypes.CDLL(folder + "/" + soname)
    for name, (count, inputs) in functions.items():
        buffers = [ctypes.create_string_buffer(patterned, 1024)
                   for _ in range(count)]
        for i in inputs:
            buffers[i] = None
        function = getattr(library, name)
        function.restype = ctypes.c_int64
        status = function(*buffers)
        found[name] = [status, [b.raw[:64].hex() if b else None for b in buffers]]
result = found
"""

WIDTH = {"int": 4, "long": 8, "byte": 1, "handle": 8}


def plain(answers):
    """Answers whose outcome follows from the table alone."""
    values = [a.value for a in answers if a.verb in WIDTH or a.verb == "returns"]
    return all(v.lstrip("-").isdigit() or not v for v in values) and \
        not any(a.verb in ("hand", "text") or a.star for a in answers)


def outputs(answers):
    """For each argument that is written, the bytes as hex; None: a handle."""
    written = {}
    for a in answers:
        if a.verb in ("int", "long", "byte"):
            written[a.argument] = int(a.value).to_bytes(
                WIDTH[a.verb], "little", signed=True).hex()
        elif a.verb == "zero":
            written[a.argument] = "00" * min(64, int(a.value))
        elif a.verb == "handle":
            written[a.argument] = None
    return written


def status(table, answers):
    for a in answers:
        if a.verb == "refuse":
            return int(table.refuse)
        if a.verb == "returns":
            return int(a.value)
    return 0


def exported(phantom):
    """The functions that were made, by SONAME, with their tables."""
    for table in tables.read_all():
        for path in phantom.folder.glob(f"{table.stem}.so*"):
            names = elf.exports(str(path)) & set(table.functions)
            yield path.name, table, sorted(names)


def test_every_output_is_written_and_no_byte_more(phantom):
    wanted, expected = {}, {}
    for soname, table, names in exported(phantom):
        for name in names:
            answers = table.functions[name]
            if not plain(answers):
                continue
            arguments = [a.argument for a in answers if a.argument is not None]
            ends = [a.argument for a in answers if a.verb == "end"]
            wanted.setdefault(soname, {})[name] = [max(arguments, default=-1) + 1,
                                                   ends]
            expected[name] = (status(table, answers), outputs(answers))
    found = phantom.run(
        CALL.replace("FOLDER", repr(str(phantom.folder))).replace(
            "WANTED", repr(wanted)), torch=False).result
    assert len(found) == len(expected) > 500
    for name, (code, written) in expected.items():
        got, buffers = found[name]
        assert got == code, name
        for i, raw in enumerate(buffers):
            if raw is None:
                continue
            value = written.get(i, "")
            if value is None:
                assert raw[:16] not in ("a5" * 8, "00" * 8), name
                value = raw[:16]
            assert raw == value + "a5" * (64 - len(value) // 2), (name, i)


def test_outputs_that_are_null_are_left_out(phantom):
    assert phantom.run("""
        solver = ctypes.CDLL(next(l.split()[-1] for l in open("/proc/self/maps")
                                  if "libcusolver" in l))
        result = [solver.cusolverDnCreate(None),
                  solver.cusolverDnSgetrf_bufferSize(*[None] * 6)]
        """, torch=False).result == [0, 0]


def test_calls_are_counted_when_asked_for(phantom):
    job = phantom.run("""
        x = torch.randn(4, 4, device="cuda")
        for _ in range(3):
            torch.fft.fft(x)
        """, CKPT_PHANTOM_TRACE="1")
    assert job.status == 0
    assert "phantom: 3 calls of cufftXtExec" in job.said
