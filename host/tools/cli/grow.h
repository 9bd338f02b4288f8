/* cli/grow.h - inputs that grow from run to run, as in decoding with a past, sounds of various lengths, or batches.
 *
 *     --grow NAME=START+STEP     run k (from 0) has START + k * STEP along every axis that the model calls NAME
 *     --grow NAME=STEP           the same, starting at the current size of the axis
 *
 * An axis whose name is a sum ("past + new") grows with the terms of the sum. Values are repeated along the axis, so
 * that indices stay valid and masks stay masks. */
#ifndef CLI_GROW_H
#define CLI_GROW_H
#include "cli/cli.h"

struct grow {
    const char **specs; /* [count] arguments of --grow */
    uint32_t count;
};

/* Appends an argument of --grow to the struct grow at `field`. */
error_t grow_add(const cli_option *option, void *field, char *arg, struct argp_state *state);
/* A row of a verb's options. */
#define GROW_OPTION(type, field)                                                                                       \
    {                                                                                                                  \
        "grow", "NAME=START+STEP",                                                                                     \
            "Time runs in which each axis NAME grows by STEP\v(from START if given): the cost of new sizes",           \
            CLI_CALL(grow_add, type, field)                                                                            \
    }
void grow_deinit(struct grow *grow);

/* Binds the inputs of run `step`, derived from `values` (feed.h). INLAY_INVALID_ARGUMENT: the model has no axis with
 * such a name, an input that grows is not a dense tensor, or a size is too large. */
INLAY_NODISCARD inlay_status grow_bind(const struct grow *grow, uint64_t step, inlay_value *const *values,
                                       const inlay_session *session, inlay_context *context, inlay_diag *diag);
#endif
