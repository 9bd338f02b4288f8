/* probe/trial.h - what a plugin is made to do before a host trusts it with a model. */
#ifndef PROBE_TRIAL_H
#define PROBE_TRIAL_H
#include "plugin/module.h"

/* Opens each provider with default options, and has it assess, compile and run nodes of a small built-in list, and the
 * examples of the plugin's own operators. Whatever it answers is fine: what counts is that it comes back. Returns how
 * often a call left rounding, flushing or traps of floats changed, which are set back. */
uint32_t trial_run(const plugin_module *module);
#endif
