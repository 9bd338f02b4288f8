/* cli/stages.h - who belongs into which stage when a model is cut along its assignment to providers; and names by
 * globs. */
#ifndef CLI_STAGES_H
#define CLI_STAGES_H
#include "cli/cli.h"

struct stage {
    char *provider;
    const char **nodes; /* [count] names */
    uint32_t count;
};

struct stages {
    struct stage *list; /* [count] in the order in which they run; owned */
    uint32_t count;
};

/* Assigns the model as it stands in its file, not optimised, and gives each stretch of one provider a stage. */
INLAY_NODISCARD inlay_status stages_find(cli_common *common, const char *path, struct stages *out, inlay_diag *diag);
void stages_deinit(struct stages *stages);

/* Names of values of the main graph for a list in which some may be globs; what is a name stands for itself. The result
 * and its texts are released with stages_free_names(). INLAY_INVALID_ARGUMENT: a glob fits nothing. */
INLAY_NODISCARD inlay_status stages_expand(const char *path, const char *const *names, uint32_t count, const char *what,
                                           char ***out_names, uint32_t *out_count, inlay_diag *diag);
void stages_free_names(char **names, uint32_t count);
#endif
