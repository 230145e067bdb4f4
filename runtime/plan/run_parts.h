// The parts of a run, each as the options say it. Options are those of resolved_options().
#pragma once

#include "core/placement.h"
#include "eps/parameter_store.h"
#include "l2l/options.h"
#include "models/model.h"
#include "optimizers/loss_scaler.h"
#include "runtime/plan/arena_plan.h"

namespace l2l::runtime {

// As a new run begins.
optimizers::LossScaler loss_scaler(const PrecisionOptions& precision);

models::Model make_model(const Options& options);

// `placement`: of the workers.
eps::StoreOptions store_options(const Options& options, const Placement& placement);

// Without places.
ExecutionPlan execution_plan(const Options& options);

}  // namespace l2l::runtime
