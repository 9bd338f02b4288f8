/* check/models.h - the nodes of the models of --model as cases, for plugins whose users' models are known. */
#ifndef CHECK_MODELS_H
#define CHECK_MODELS_H
#include "check/generate.h"

/* Models that are open, optimised as a session does. */
typedef struct model_set {
    const graph_model *models[CHECK_MODELS]; /* [count] */
    void *owners[CHECK_MODELS];
    uint32_t count;
    const check_args *args;
} model_set;

/* Opens the models of --model; a model that cannot be opened is a FAIL line of check `name`. */
void models_open(struct check *check, const char *name, model_set *out);
void models_close(model_set *set);

/* How large the cases are. */
enum {
    MODELS_OWN,   /* the sizes of the model; sizes that are known only during a run are MODELS_OPEN_SIZE */
    MODELS_SMALL, /* sizes above 64 become at most 63, with the same factors of two; elements are random */
};
enum { MODELS_OPEN_SIZE = 4 };

/* Calls fn with the nodes of model `index`, bodies included, that have no bodies; op_type NULL: of all operators. The
 * constants of small integers are those of the model, and with MODELS_OWN all others, too. A case may be invalid, such
 * as one with random indices. *entry as in case_fn. */
void models_nodes(const model_set *set, uint32_t index, const char *op_type, uint32_t sizes, case_fn fn, void *user);
#endif
