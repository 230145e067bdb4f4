// What the shared library exports: the classes and functions of these headers that L2L_API marks. All else is hidden in
// it, parts of such a class that L2L_HIDDEN marks included.
#pragma once

#define L2L_API __attribute__((visibility("default")))
#define L2L_HIDDEN __attribute__((visibility("hidden")))
