/* cli/grow.h - runs whose inputs grow from one to the next: decoding with a past, sounds of other lengths, batches.
 *
 *     --grow NAME=START+STEP     run k (from 0) has START + k * STEP along every axis that the model calls NAME
 *     --grow NAME=STEP           the same from the size that the axis has
 *
 * An axis whose name is a sum ("past + new") follows its parts.
 * Values are repeated along the axis: indexes stay valid, masks stay masks. */
#ifndef CLI_GROW_H
#define CLI_GROW_H
#include "cli/cli.h"

struct grow {
    const char **specs; /* [count] arguments of --grow */
    uint32_t count;
};

/* Keeps an argument of --grow, in a grow. */
error_t grow_add(const cli_option *option, void *field, char *arg, struct argp_state *state);
/* A row of a verb's options. */
#define GROW_OPTION(type, field)                                                                                       \
    {                                                                                                                  \
        "grow", "NAME=START+STEP",                                                                                     \
            "Time runs whose axes called NAME grow by STEP each, from START if that is there: what new sizes cost",    \
            CLI_CALL(grow_add, type, field)                                                                            \
    }
void grow_deinit(struct grow *grow);

/* Binds the inputs of run `step`, made of values (feed.h). INLAY_INVALID_ARGUMENT: the model
 * has no axis of such a name, an input that grows is no dense tensor, or a size becomes too large to be counted. */
INLAY_NODISCARD inlay_status grow_bind(const struct grow *grow, uint64_t step, inlay_value *const *values,
                                       const inlay_session *session, inlay_context *context, inlay_diag *diag);
#endif
