/* cli/stages.h - stages of a model that is cut along its assignment to providers; expansion of globs to names of
 * values.
 */
#ifndef CLI_STAGES_H
#define CLI_STAGES_H
#include "cli/cli.h"

struct stage {
    char *provider;
    const char **nodes; /* [count] names */
    uint32_t count;
};

struct stages {
    struct stage *list; /* [count] in execution order; owned */
    uint32_t count;
};

/* Assigns the unoptimised model. Each group of consecutive nodes of one provider becomes a stage. */
INLAY_NODISCARD inlay_status stages_find(cli_common *common, const char *path, struct stages *out, inlay_diag *diag);
void stages_deinit(struct stages *stages);

/* Expands globs to names of values of the main graph; other names are copied. Release the result with
 * stages_free_names(). INLAY_INVALID_ARGUMENT: a glob matches nothing. */
INLAY_NODISCARD inlay_status stages_expand(const cli_common *common, const char *path, const char *const *names,
                                           uint32_t count, const char *what, char ***out_names, uint32_t *out_count,
                                           inlay_diag *diag);
void stages_free_names(char **names, uint32_t count);
#endif
