/* plugin/guard.h - the table through which the host calls a provider.
 *
 * An open provider's functions are wrapped: each wrapper notes whose code runs (plugin/crash.h) and calls the plugin's
 * own. Table and state are wrapped together, so nobody else has to know. The run loop, for which one more call a node
 * would be too many, takes the plugin's execute out again (provider_direct) and keeps the note itself. */
#ifndef PLUGIN_GUARD_H
#define PLUGIN_GUARD_H
#include "inlay/extensions.h"
#include "plugin/plugin.h"

struct guard {
    inlay_provider table; /* what the host calls; its state argument is the guard */
    const inlay_provider *real;
    const char *name; /* what messages call it; outlives the guard */
    void *state;      /* the plugin's */
    const struct plugin_module *module;
    /* The extensions whose functions take the provider's state, wrapped likewise; real_NAME is NULL where the plugin
     * has none. The streams' functions are called with provider_direct()'s state instead. */
    inlay_ext_kernels kernels;
    const inlay_ext_kernels *real_kernels;
    inlay_ext_states states;
    const inlay_ext_states *real_states;
    inlay_ext_branches branches;
    const inlay_ext_branches *real_branches;
    uint32_t float_changes; /* atomic: calls after which rounding and the like had to be set back */
    uint32_t reserved;
};

/* Wraps a provider whose create has given state. real is as this host knows it and outlives the guard, and so does
 * name, by which the user knows it. */
void guard_init(struct guard *guard, const inlay_provider *real, const char *name, void *state,
                const struct plugin_module *module);

/* An operator's inference, wrapped likewise: ctx of the wrapped operator. */
typedef struct guard_operator {
    inlay_status (*infer)(void *ctx, inlay_infer *infer, inlay_diag *diag);
    void *ctx;
    const struct plugin_module *module;
} guard_operator;
/* Replaces op->infer and op->ctx, when there is an infer. operator lives as long as op. */
void guard_wrap_operator(inlay_operator *op, guard_operator *operator, const struct plugin_module * module);
#endif
