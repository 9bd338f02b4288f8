#include "check/data.h"
#include "check/cases.h"
#include "model/model.h"
#include <fnmatch.h>
#include <string.h>

/* The number of the file that holds a graph's input: files stand for the inputs in their order. INLAY_NONE: none. */
static uint32_t file_of(const struct graph *g, uint32_t value)
{
    uint32_t file = 0;

    for (uint32_t i = 0; i < g->input_count; i++) {
        if (g->inputs[i] == value)
            return file;
        file += g->values[g->inputs[i]].default_value == NULL;
    }
    return INLAY_NONE;
}

static bool add_constant(op_case *k, const inlay_value_info *v)
{
    int64_t dims[CASE_RANK];
    case_tensor *t;

    for (uint32_t d = 0; d < v->rank && d < CASE_RANK; d++)
        dims[d] = v->dims[d].value;
    t = case_input(k, v->dtype, v->rank, dims, true);
    if (t == NULL)
        return false;
    t->data = (void *)(uintptr_t)v->data;
    t->bytes = v->data_bytes;
    return true;
}

static bool add_file(op_case *k, const char *set, uint32_t file)
{
    model_datum datum;
    char path[4200];
    case_tensor *t;

    (void)snprintf(path, sizeof path, "%s/input_%u.pb", set, file);
    if (model_datum_load(path, INLAY_VALUE_TENSOR, &k->a, &datum, NULL) != INLAY_OK ||
        (t = case_input(k, datum.tensor.dtype, datum.tensor.rank, datum.tensor.dims, false)) == NULL)
        return false;
    t->data = (void *)(uintptr_t)datum.tensor.data;
    t->bytes = datum.tensor.bytes;
    return true;
}

static bool add_input(op_case *k, const struct graph *g, uint32_t value, const char *set)
{
    const inlay_value_info *v = value == INLAY_NONE ? NULL : &g->values[value].info;
    uint32_t file = value == INLAY_NONE ? 0 : file_of(g, value);
    case_tensor *t;

    if (v == NULL)
        return case_input(k, INLAY_UNDEFINED, 0, NULL, false) != NULL;
    if (v->kind != INLAY_VALUE_TENSOR)
        return false;
    if ((v->flags & INLAY_VALUE_CONSTANT) != 0 ? !add_constant(k, v) : file == INLAY_NONE || !add_file(k, set, file))
        return false;
    t = &k->in[k->in_count - 1];
    t->count = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        t->count *= t->dims[d]; /* the loader has checked it */
    return true;
}

static bool read_case(const graph_model *m, const char *set, const char *match, op_case *k)
{
    const struct graph *g = m->main;
    const graph_node *n = g->node_count == 1 ? g->nodes[0] : NULL;
    bool ok = n != NULL && n->body_count == 0 && n->info.output_count > 0 && n->info.output_count <= CASE_OUTPUTS &&
              m->function_count == 0 && (match == NULL || fnmatch(match, n->info.op_type.data, 0) == 0);

    if (!ok)
        return false;
    case_init(k, n->info.domain.data, n->info.op_type.data, n->opset);
    k->out_count = n->info.output_count;
    k->random = strncmp(k->op_type, "Random", 6) == 0 || strcmp(k->op_type, "Bernoulli") == 0 ||
                strcmp(k->op_type, "Multinomial") == 0 || strcmp(k->op_type, "Dropout") == 0;
    for (uint32_t i = 0; i < n->info.attr_count && ok; i++)
        ok = case_attr(k, &n->info.attrs[i]);
    for (uint32_t i = 0; i < n->info.input_count && ok; i++)
        ok = add_input(k, g, n->info.inputs[i], set);
    return ok;
}

inlay_status data_cases(const char *dir, const char *match, case_fn fn, void *user, uint32_t *out_count,
                        inlay_diag *diag)
{
    case_list list = { 0 };
    struct arena a = { 0 };
    inlay_status status = cases_find(dir, &a, &list, diag);
    bool go_on = status == INLAY_OK;

    *out_count = 0;
    for (uint32_t i = 0; i < list.count && go_on; i++) {
        graph_model *m = NULL;
        op_case k = { .in_count = 0 };

        if (list.cases[i].set_count > 0 && model_load_path(list.cases[i].model, NULL, &m, NULL) == INLAY_OK &&
            read_case(m, list.cases[i].sets[0], match, &k)) {
            ++*out_count;
            go_on = fn(user, &k);
        }
        case_deinit(&k);
        graph_model_destroy(m);
    }
    arena_deinit(&a);
    return status;
}
