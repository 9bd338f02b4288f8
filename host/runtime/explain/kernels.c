/* Which kernels the providers of a session run by. */
#include "explain/internal.h"
#include "inlay/extensions.h"
#include <stdlib.h>
#include <string.h>

const char *facts_kernel_reason(uint32_t reason)
{
    static const char *const names[] = { [INLAY_KERNEL_ONLY] = "only one",
                                         [INLAY_KERNEL_MODEL] = "model",
                                         [INLAY_KERNEL_TIMED] = "timed",
                                         [INLAY_KERNEL_OPTION] = "option" };

    return reason < sizeof names / sizeof names[0] ? names[reason] : "";
}

struct listing {
    struct facts *f;
    facts_graph *g;
    const facts_region *region;
};

static bool in_region(const part_region *r, uint32_t node)
{
    for (uint32_t i = 0; i < r->node_count; i++)
        if (r->nodes[i] == node)
            return true;
    return false;
}

static const char *copied(struct arena *a, const char *text)
{
    return text != NULL ? arena_string(a, text) : NULL;
}

/* Plugins may be older or newer than this host, and may err. */
static inlay_status note_kernel(void *ctx, const inlay_kernel *k)
{
    struct listing *l = ctx;
    facts_kernel *kept;
    double told;

    if (k == NULL || !INLAY_HAS(k, why) || k->name == NULL || !in_region(l->region->region, k->node))
        return INLAY_OK;
    told = k->reason == INLAY_KERNEL_TIMED ? 1 : cost_told(l->region->step->provider, COST_MODEL);
    kept = arena_alloc(&l->f->a, sizeof *kept);
    if (kept == NULL)
        return INLAY_OUT_OF_MEMORY;
    *kept = (facts_kernel){ .name = copied(&l->f->a, k->name),
                            .runner_up = copied(&l->f->a, k->runner_up),
                            .why = copied(&l->f->a, k->why),
                            .ns = told * k->ns,
                            .runner_up_ns = told * k->runner_up_ns,
                            .reason = k->reason,
                            .error = INLAY_HAS(k, error) ? k->error : 0,
                            .error_bound = INLAY_HAS(k, error_bound) ? k->error_bound : 0 };
    if (kept->name == NULL)
        return INLAY_OUT_OF_MEMORY;
    l->g->nodes[k->node].kernel = kept;
    return INLAY_OK;
}

static inlay_status ask_region(struct facts *f, facts_graph *g, const facts_region *r)
{
    const program_step *step = r->step;
    const inlay_provider *table = step != NULL && step->provider != NULL ? step->provider->table : NULL;
    const inlay_ext_kernels *kernels = NULL;
    struct listing l = { f, g, r };
    inlay_specialize_request request = { .struct_size = sizeof request,
                                         .values = g->parts->profile,
                                         .value_count = g->program->snapshot.value_count,
                                         .value_stride = sizeof *g->parts->profile,
                                         .max_threads = f->session->env.max_threads,
                                         .workspace_alignment = 64,
                                         .output_count = r->region->output_count,
                                         .output_stride = sizeof *request.outputs };
    inlay_instance *instance = NULL;
    inlay_diag quiet = INLAY_DIAG_INIT;
    inlay_status status;

    if (table != NULL && step->compiled != NULL && INLAY_HAS(table, extension) && table->extension != NULL)
        kernels = table->extension(step->provider->state, INLAY_EXT_KERNELS);
    if (kernels == NULL || request.values == NULL)
        return INLAY_OK;
    request.outputs = calloc(request.output_count + 1u, sizeof *request.outputs);
    if (request.outputs == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < request.output_count; i++)
        request.outputs[i].alias = INLAY_NONE;
    status = table->specialize(step->provider->state, step->compiled, &request, &instance, &quiet);
    if (status == INLAY_OK) {
        status = kernels->list(step->provider->state, step->compiled, instance, note_kernel, &l);
        table->release_instance(step->provider->state, step->compiled, instance);
    }
    free(request.outputs);
    return status == INLAY_OUT_OF_MEMORY ? status : INLAY_OK;
}

inlay_status facts_find_kernels(struct facts *f, inlay_diag *diag)
{
    for (uint32_t i = 0; i < f->graph_count; i++)
        for (uint32_t r = 0; r < f->graphs[i]->region_count; r++)
            if (ask_region(f, f->graphs[i], &f->graphs[i]->regions[r]) != INLAY_OK)
                return no_memory(diag, "to explain the session");
    return INLAY_OK;
}

/* ------------------------------------------------------------------ text */

static void text_graph(const struct facts *f, const facts_graph *g, const explain_view *view, uint32_t *io_count)
{
    char a[NICE_BYTES], b[NICE_BYTES];

    (void)f;
    for (uint32_t n = 0; n < g->program->graph->node_count; n++) {
        const facts_kernel *k = g->nodes[n].kernel;
        const inlay_node_info *info = facts_node_info(g, n);

        if (k == NULL)
            continue;
        if ((*io_count)++ == 0)
            say(view->sink, "\nkernels\n %-18s %10s  %-8s  %-18s %10s  node\n", "kernel", "takes", "by", "runner-up",
                "takes");
        say(view->sink, " ");
        say_column(view->sink, k->name, 18);
        say(view->sink, " %10s  %-8s  ", k->ns >= 0 ? nice_ns(k->ns, a) : "-", facts_kernel_reason(k->reason));
        say_column(view->sink, k->runner_up != NULL ? k->runner_up : "-", 18);
        say(view->sink, " %10s  ", k->runner_up != NULL && k->runner_up_ns >= 0 ? nice_ns(k->runner_up_ns, b) : "");
        say_text(view->sink, info->op_type.data);
        say(view->sink, " ");
        say_text(view->sink, info->name.data);
        if (k->error > 0)
            say(view->sink, "  (error %.1e of the largest result", k->error);
        if (k->error > 0 && k->error_bound > 0)
            say(view->sink, ", bound %.0e", k->error_bound);
        if (k->error > 0)
            say(view->sink, ")");
        if (k->why != NULL) {
            say(view->sink, "  (");
            say_text(view->sink, k->why);
            say(view->sink, ")");
        }
        say(view->sink, "\n");
    }
}

void text_kernels(const struct facts *f, const explain_view *view)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < f->graph_count; i++)
        text_graph(f, f->graphs[i], view, &count);
    if (count == 0)
        say(view->sink, "\nno provider of this session has several kernels for a node\n");
}

void json_kernel(json_out *j, const facts_kernel *k)
{
    json_open(j, "kernel", '{', true);
    json_text(j, "name", k->name);
    if (k->ns >= 0)
        json_number(j, "ns", k->ns);
    json_text(j, "by", facts_kernel_reason(k->reason));
    if (k->runner_up != NULL) {
        json_text(j, "runner_up", k->runner_up);
        if (k->runner_up_ns >= 0)
            json_number(j, "runner_up_ns", k->runner_up_ns);
    }
    if (k->error > 0)
        json_number(j, "error", k->error);
    if (k->error_bound > 0)
        json_number(j, "error_bound", k->error_bound);
    if (k->why != NULL)
        json_text(j, "why", k->why);
    json_close(j);
}
