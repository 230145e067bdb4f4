"""The negative control of check_floors.py: each offence, planted in a file of its own, is caught; what the floors allow is not."""
import unittest

from check_floors import forgotten, offences

OFFENCES = [
    ("core/dtype.cpp", '#include "device/device.h"', "core/ may not include"),
    ("formats/safetensors.cpp", '#include "eps/parameter_store.h"', "formats/ may not include"),
    ("compiler/ir/builder.cpp", '#include "device/device.h"', "compiler/ may not include"),
    ("compiler/ir/builder.cpp", '#include "compiler/autodiff/backward.h"', "compiler/ir/ may not include"),
    ("compiler/memory/sweep.cpp", '#include "compiler/remat/chain.h"', "compiler/memory/ may not include"),
    ("compiler/remat/dtr/trace.cpp", '#include "compiler/ir/graph.h"', "compiler/remat/dtr/ may not include"),
    ("compiler/attic/old.cpp", '#include "compiler/ir/graph.h"', "compiler/attic/ may not include"),
    ("optimizers/adamw.cpp", '#include "eps/parameter_store.h"', "optimizers/ may not include"),
    ("optimizers/vector/pack_avx2.h", '#include "optimizers/kernels.h"', "optimizers/vector/ may not include"),
    ("device/host/host.cpp", '#include "optimizers/clip.h"', "device/ may not include"),
    ("device/kernels/add.cu", '#include "device/cuda/cuda_stream.h"', "device/kernels/ may not include"),
    ("device/kernels/common/launch.cuh", '#include "device/kernels/matmul_plan.h"', "device/kernels/common/ may not"),
    ("device/cuda/cuda_device.cpp", '#include "device/kernels/matmul_plan.h"', "device/cuda/ may not include"),
    ("device/cuda/cuda_device.cpp", '#include "device/host/host_device.h"', "device/cuda/ may not include"),
    ("device/device.cpp", '#include "device/cuda/cuda_device.h"', "device/ may not include"),
    ("eps/updater.cpp", '#include "device/device.h"', "eps/ may not include"),
    ("eps/updater.cpp", '#include "compiler/ir/graph.h"', "eps/ may not include"),
    ("eps/updater.cpp", '#include "transfer/slot_ring.h"', "eps/ may not include"),
    ("eps/updater.cpp", '#include "eps/checkpoint/manifest.h"', "eps/ may not include"),
    ("transfer/drain.cpp", '#include "models/gpt2.h"', "transfer/ may not include"),
    ("models/gpt2.cpp", '#include "device/device.h"', "models/ may not include"),
    ("models/gpt2.cpp", '#include "compiler/remat/policy.h"', "models/ may not include"),
    ("models/gpt2.cpp", '#include "eps/parameter_store.h"', "models/ may not include"),
    ("runtime/relay.cpp", '#include "tools/arguments.h"', "runtime/ may not include"),
    ("runtime/plan/run_plan.cpp", '#include "runtime/engine.h"', "runtime/plan/ may not include"),
    ("runtime/plan/run_plan.cpp", '#include "runtime/tuning/step_costs.h"', "runtime/plan/ may not include"),
    ("runtime/options/options.cpp", '#include "runtime/plan/run_plan.h"', "runtime/options/ may not include"),
    ("runtime/engine.h", '#include "runtime/tuning/step_costs.h"', "runtime/ may not include"),
    ("runtime/engine.cpp", '#include "runtime/plan_run.h"', "runtime/ may not include"),
    ("runtime/tuning/step_ratios.cpp", '#include "runtime/plan_run.h"', "runtime/tuning/ may not include"),
    ("runtime/attic/old.cpp", '#include "runtime/data/dataset.h"', "runtime/attic/ may not include"),
    ("tools/train.cpp", '#include "eps/checkpoint/checkpoint.h"', "tools/ may not include"),
    ("tools/train.cpp", '#include "tools/bench/schedule_cases.h"', "tools/ may not include"),
    ("tools/train/run.cpp", '#include "core/files.h"', "public headers alone"),
    ("tools/l2l_train.cpp", '#include "runtime/metrics.h"', "public headers alone"),
    ("tools/output_file.cpp", '#include "tools/model_argument.h"', "public headers alone"),
    ("base/json.cpp", '#include "core/hash.h"', "base/ may not include"),
    ("examples/embed.cpp", '#include "core/bytes.h"', "examples/ may not include"),
    ("include/l2l/trainer.h", '#include "core/bytes.h"', "include/ may not include"),
    ("core/dtype.cpp", "  #  include <runtime/relay.h>", "core/ may not include"),
    ("core/dtype.cpp", '#include "bytes.h"', "not a path from the root"),
    ("core/dtype.cpp", '#include "../device/device.h"', "not a path from the root"),
    ("runtime/relay.cpp", '#include "device/host/host_device.h"', "one backend"),
    ("transfer/drain.cpp", '#include "device/cuda/stream.h"', "one backend"),
    ("device/open.cpp", "#ifdef L2L_CUDA", "which files link"),
    ("core/dtype.cpp", "#if defined(__NVCC__)", "which files link"),
]

ALLOWED = [
    ("core/dtype.cpp", '#include "core/dtype.h"'),
    ("core/dtype.cpp", '#include "l2l/errors.h"'),
    ("core/dtype.cpp", "#include <vector>"),
    ("core/workers_tbb.cpp", "#include <tbb/task_arena.h>"),
    ("include/l2l/l2l.h", '#include "l2l/errors.h"'),
    ("formats/safetensors.cpp", '#include "core/files.h"'),
    ("eps/checkpoint/checkpoint_save.cpp", '#include "formats/safetensors_writer.h"'),
    ("eps/checkpoint/checkpoint_save.cpp", '#include "eps/parameter_store.h"'),
    ("models/gpt2.h", '#include "core/model_layout.h"'),
    ("models/gpt2.h", '#include "compiler/ir/graph.h"'),
    ("compiler/remat/stage.cpp", '#include "compiler/memory/planner.h"'),
    ("device/kernels/add.cu", '#include "device/kernels/common/launch.cuh"'),
    ("device/cuda/cuda_executable.h", '#include "device/kernels/common/cuda_kernel.h"'),
    ("device/open.cpp", '#include "device/host/host_device.h"'),
    ("runtime/tuning/shallow_run.cpp", '#include "runtime/engine.h"'),
    ("runtime/trainer.cpp", '#include "runtime/plan_run.h"'),
    ("runtime/plan_run.cpp", '#include "runtime/tuning/proposals.h"'),
    ("tools/bench/measured_run.cpp", '#include "runtime/plan_run.h"'),
    ("tools/plan_problem.cpp", '#include "compiler/memory/portfolio.h"'),
    ("tools/train/run.cpp", '#include "base/json.h"'),
    ("tools/train/run.cpp", '#include "tools/report/run_log.h"'),
    ("tools/l2l_plan.cpp", '#include "core/files.h"'),
    ("tools/bench/update_speed.cpp", '#include "eps/parameter_store.h"'),
    ("device/cuda/stream.cpp", "#if CUDA_VERSION >= 12000"),
    ("device/open.cpp", "// #ifdef CUDA"),
]


class Floors(unittest.TestCase):
    def test_offences_are_caught(self):
        for path, line, reason in OFFENCES:
            with self.subTest(path=path, line=line):
                found = list(offences([(path, "#pragma once\n" + line)]))
                self.assertEqual(len(found), 1)
                self.assertTrue(found[0].startswith(f"{path}:2: "), found[0])
                self.assertIn(reason, found[0])

    def test_what_the_floors_allow_passes(self):
        for path, line in ALLOWED:
            with self.subTest(path=path, line=line):
                self.assertEqual(list(offences([(path, line)])), [])

    def test_sources_that_are_not_listed_are_told(self):
        meson = """tools_lib = static_library('t', files('command.cpp', 'new.cpp') + more,
  link: x)
l2l_train = executable('l2l-train', files('l2l_train.cpp', 'train/run.cpp'))
l2l_export = executable('l2l-export', files('l2l_export.cpp'))
"""
        found = list(forgotten(meson))
        self.assertEqual(len(found), 2, found)
        self.assertIn("new.cpp", found[0])
        self.assertIn("l2l_report", found[1])


if __name__ == "__main__":
    unittest.main()
