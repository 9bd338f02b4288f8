/* probe/trial.h - calls a plugin's functions before a host uses it for a model. */
#ifndef PROBE_TRIAL_H
#define PROBE_TRIAL_H
#include "plugin/guard.h"
#include "plugin/module.h"

/* Opens each provider with these options ("NAME=VALUE", ended by NULL), otherwise the default ones, and lets it assess,
 * compile and run nodes of a small built-in list and the examples of the plugin's operators. The results do not matter;
 * the test is that the calls return. Returns the number of calls that changed the rounding mode, flushing or traps of
 * floats without restoring them. */
uint32_t trial_run(const plugin_module *module, char *const *settings);
/* Lets an open provider, wrapped by guard_init(), assess, compile and run these nodes and examples. */
void trial_run_provider(const plugin_module *module, struct guard *wrapped);
#endif
