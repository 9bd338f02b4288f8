/* plugin/guard.h - the table through which the host calls a provider.
 *
 * The functions of an open provider are wrapped: each wrapper records the current call (plugin/crash.h) and calls the
 * plugin's function. Table and state are wrapped together, so the rest of the host uses a wrapped provider like any
 * other. The run loop avoids the extra call per node: it takes the plugin's execute function (provider_direct) and
 * keeps the record itself. */
#ifndef PLUGIN_GUARD_H
#define PLUGIN_GUARD_H
#include "inlay/extensions.h"
#include "inlay/plugin.h"
#include "plugin/plugin.h"
#include "plugin/serial.h"

struct guard {
    inlay_provider table; /* the wrappers that the host calls; their state argument is the guard */
    const inlay_provider *real;
    const char *name; /* the name in messages; outlives the guard */
    void *state;      /* the plugin's */
    const struct plugin_module *module;
    /* Wrapped extensions, whose functions take the provider's state; real_NAME is NULL where the plugin does not
     * have it. The functions of the streams extension get provider_own_state() instead and are not wrapped. */
    inlay_ext_kernels kernels;
    const inlay_ext_kernels *real_kernels;
    inlay_ext_states states;
    const inlay_ext_states *real_states;
    inlay_ext_branches branches;
    const inlay_ext_branches *real_branches;
    const inlay_ext_control *real_control; /* called by control.c only */
    pthread_mutex_t control_lock;          /* one call of control at a time */
    uint32_t users;                        /* atomic, see control.c */
    struct serial serial;                  /* used if the provider has INLAY_PROVIDER_SERIAL_EXECUTE */
    uint32_t float_changes;                /* atomic: calls after which the floating-point state had to be restored */
};

/* Wraps a provider whose create() returned state. real is in this host's layout. real and name, the name that the
 * user gave it, outlive the guard. */
void guard_init(struct guard *guard, const inlay_provider *real, const char *name, void *state,
                const struct plugin_module *module);

/* Calls the provider's extension inlay.control/1, which must exist. */
inlay_status guard_control(struct guard *guard, inlay_control_args *args, inlay_diag *diag);

/* An operator's wrapped shape inference: ctx of the wrapped operator. */
typedef struct guard_operator {
    inlay_status (*infer)(void *ctx, inlay_infer *infer, inlay_diag *diag);
    void *ctx;
    const struct plugin_module *module;
} guard_operator;
/* Replaces op->infer and op->ctx if infer is set. guard lives as long as op. */
void guard_wrap_operator(inlay_operator *op, guard_operator *guard, const struct plugin_module *module);
#endif
