// The public API of L2L in one include.
#pragma once

#include "l2l/allocator.h"
#include "l2l/choose.h"
#include "l2l/custom_op.h"
#include "l2l/data.h"
#include "l2l/errors.h"
#include "l2l/graph.h"
#include "l2l/log.h"
#include "l2l/model_files.h"
#include "l2l/options.h"
#include "l2l/revbifpn.h"
#include "l2l/run.h"
#include "l2l/testing.h"
#include "l2l/tokenizer.h"
#include "l2l/trainer.h"
#include "l2l/version.h"
