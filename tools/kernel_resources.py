#!/usr/bin/env python3
"""What each CUDA kernel takes: registers, local memory (spills, and arrays that are not in registers), static shared memory,
read from the object files of a build without compression, of each architecture in them.

  kernel_resources.py OBJECT...                  a table (CSV), by kernel: the most of all its instances
  kernel_resources.py OBJECT... --check TABLE    exit status 1 where a kernel takes more than in the table, or is not in it

An instance is a kernel with its template arguments; those that differ in types and sizes alone are one row. `blocks` is how
many blocks of the most threads that the kernel allows fit on a multiprocessor, as far as registers and static shared memory
go; empty where a kernel does not say. A table is that of one version of nvcc, its first line: --check compares nothing (exit
status 77) where OBJECT was compiled by another one.
"""
import argparse
import collections
import csv
import io
import pathlib
import re
import struct
import subprocess
import sys

CUDA_MACHINE = 190
REGISTERS, FRAME, MOST_THREADS = 0x2F, 0x11, 0x05  # kinds of entries in .nv.info
FIELDS = ("arch", "kernel", "instances", "registers", "local", "shared", "threads", "blocks")
# Of a multiprocessor: registers, threads, bytes of shared memory.
LIMITS = {80: (65536, 2048, 164 * 1024), 90: (65536, 2048, 228 * 1024), 100: (65536, 2048, 228 * 1024)}


def images(data):
    """Machine code for GPUs in an object file: ELF files in it."""
    at = data.find(b"\x7fELF", 1)
    while at >= 0:
        if struct.unpack_from("<H", data, at + 18)[0] == CUDA_MACHINE:
            yield data[at:]
        at = data.find(b"\x7fELF", at + 4)


def text(table, at):
    return table[at:table.index(b"\0", at)].decode()


def entries(info):
    """(kind, value) of a .nv.info section; values of up to two bytes as numbers."""
    at = 0
    while at + 4 <= len(info):
        form, kind, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:
            yield kind, info[at:at + size]
            at += size
        else:
            yield kind, size


class Image:
    def __init__(self, elf):
        self.elf = elf
        self.arch = struct.unpack_from("<I", elf, 48)[0] >> 8 & 0xFF
        place, = struct.unpack_from("<Q", elf, 40)
        size, count, names = struct.unpack_from("<HHH", elf, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", elf, place + i * size) for i in range(count)]
        strings = self.bytes(headers[names])
        self.sections = {text(strings, header[0]): header for header in headers}

    def bytes(self, header):
        return self.elf[header[4]:header[4] + header[5]]

    def kernels(self):
        """(mangled name, registers, local, shared, threads) of each."""
        symbols, strings = (self.bytes(self.sections[name]) for name in (".symtab", ".strtab"))
        of = lambda index: text(strings, struct.unpack_from("<I", symbols, index * 24)[0])
        numbers = collections.defaultdict(dict)
        for kind, value in entries(self.bytes(self.sections[".nv.info"])):
            if kind in (REGISTERS, FRAME):
                index, number = struct.unpack("<II", value)
                numbers[of(index)][kind] = number
        for name in numbers:
            if ".nv.info." + name not in self.sections:
                continue  # a function that kernels call
            threads = 0
            for kind, value in entries(self.bytes(self.sections[".nv.info." + name])):
                if kind == MOST_THREADS:
                    x, y, z = struct.unpack("<III", value)
                    threads = x * y * z
            shared = self.sections.get(".nv.shared." + name)
            yield name, numbers[name].get(REGISTERS, 0), numbers[name].get(FRAME, 0), shared[5] if shared else 0, threads


def short(name):
    """A demangled name without namespaces, parameters, types and sizes: "elementwise Stored GeluBody"."""
    name = re.sub(r"\(anonymous namespace\)::|l2l::device::(cuda|kernels)::|l2l::compiler::|void |__nv_bfloat16|__half|float|double", "", name)
    words = re.findall(r"[A-Za-z_]\w*", name.split("(")[0])
    skipped = {"bool", "int", "true", "false", "unsigned", "long", "short", "char", "std", "const"}
    return " ".join(dict.fromkeys(word for word in words if word not in skipped))


def blocks(arch, registers, shared, threads):
    if threads == 0 or arch not in LIMITS:
        return ""
    most_registers, most_threads, most_shared = LIMITS[arch]
    of_warp = (max(registers, 1) * 32 + 255) // 256 * 256
    warps = (threads + 31) // 32
    fitting = min(most_registers // (of_warp * warps), most_threads // threads)
    reserved = 0 if arch >= 90 else 1024  # of each block, by the system; from sm_90 on it is in the figure
    return min(fitting, most_shared // max(1, shared + reserved))


def version(data):
    """Of the compiler, as it stands in what it has compiled."""
    found = re.search(rb"Cuda compilation tools, release ([0-9.]+)", data)
    return found[1].decode() if found else "?"


def table_of(paths):
    instances = collections.defaultdict(list)
    compiler = "?"
    for path in paths:
        data = path.read_bytes()
        if compiler == "?":
            compiler = version(data)
        for elf in images(data):
            image = Image(elf)
            kernels = list(image.kernels())
            names = subprocess.run(["c++filt"], input="\n".join(k[0] for k in kernels), text=True, capture_output=True, check=True)
            for demangled, kernel in zip(names.stdout.split("\n"), kernels):
                instances[image.arch, short(demangled)].append(kernel[1:])
    rows = []
    for (arch, kernel), all in sorted(instances.items()):
        registers, local, shared, threads = (max(each[i] for each in all) for i in range(4))
        least = min((blocks(arch, r, s, t) for r, _, s, t in all if t), default="")
        rows.append(dict(zip(FIELDS, (arch, kernel, len(all), registers, local, shared, threads, least))))
    return compiler, rows


def growth(rows, recorded):
    """What takes more than it did."""
    known = {(row["arch"], row["kernel"]): row for row in recorded}
    said = []
    for row in rows:
        name = f"{row['kernel']} on sm_{row['arch']}"
        before = known.get((str(row["arch"]), row["kernel"]))
        if before is None:
            said.append(f"{name}: is not in the table")
            continue
        for field in ("registers", "local", "shared"):
            if row[field] > int(before[field]):
                said.append(f"{name}: {row[field]} {field}, {before[field]} before")
    return said


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("objects", nargs="+", type=pathlib.Path)
    parser.add_argument("--check", type=pathlib.Path)
    options = parser.parse_args(arguments)
    compiler, rows = table_of(options.objects)
    if not rows:
        print("no machine code for GPUs that is not compressed", file=sys.stderr)
        return 77
    if options.check is None:
        print(f"# nvcc {compiler}")
        writer = csv.DictWriter(sys.stdout, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return 0
    first, rest = options.check.read_text().split("\n", 1)
    if first != f"# nvcc {compiler}":
        print(f"compiled by nvcc {compiler}; the table is of another: {first}", file=sys.stderr)
        return 77
    said = growth(rows, list(csv.DictReader(io.StringIO(rest))))
    for each in said:
        print(each)
    if said:
        print(f"Where that is meant, renew {options.check}.")
    print(f"{len(rows)} kernels compared")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
