/* session/sizes.c - option sizes: plans for stated sizes are created with the session, so that the first runs at these
 * sizes prepare nothing. */
#include "base/memory.h"
#include "session/session.h"
#include "threads/threads.h"
#include <stdlib.h>
#include <string.h>

/* A size of a symbolic dimension. */
typedef struct named_size {
    const char *name;
    size_t name_bytes;
    int64_t size;
} named_size;

enum { MAX_NAMES = 16 };
/* The sizes of one run. */
typedef struct size_combination {
    named_size list[MAX_NAMES];
    uint32_t count;
    const char *text; /* the item, for messages */
} size_combination;

/* Reads a word: "NAME=N" sets a size, "N" replaces the size of the last name. False: the word is neither. */
static bool read_word(const char *word, size_t bytes, size_combination *sizes)
{
    const char *equals = memrchr(word, '=', bytes), *digits = equals != NULL ? equals + 1 : word;
    const size_t name_bytes = equals != NULL ? (size_t)(equals - word) : 0;
    uint32_t at = equals == NULL && sizes->count > 0 ? sizes->count - 1 : 0;
    char *end;
    int64_t size;

    if (digits == word + bytes || *digits < '0' || *digits > '9' || (equals == NULL ? sizes->count : name_bytes) == 0)
        return false;
    size = strtoll(digits, &end, 10);
    if (end != word + bytes || size == INT64_MAX)
        return false;
    if (equals != NULL) {
        while (at < sizes->count &&
               (sizes->list[at].name_bytes != name_bytes || memcmp(sizes->list[at].name, word, name_bytes) != 0))
            at++;
        if (at == MAX_NAMES)
            return false;
        sizes->count += at == sizes->count;
        sizes->list[at].name = word;
        sizes->list[at].name_bytes = name_bytes;
    }
    sizes->list[at].size = size;
    return true;
}

/* Reads an item: "NAME=N NAME=N" states all sizes, "N" changes the last one of the item before. */
static inlay_status read_item(const char *item, size_combination *sizes, inlay_diag *diag)
{
    if (item[strspn(item, "0123456789 ")] != '\0')
        sizes->count = 0; /* names all its dimensions */
    sizes->text = item;
    for (const char *at = item + strspn(item, " "); *at != '\0';) {
        const size_t bytes = strcspn(at, " ");

        if (!read_word(at, bytes, sizes))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "option sizes: '%s' is neither NAME=N, nor several of them separated by spaces, nor a "
                              "number after such an item",
                              item);
        at += bytes;
        at += strspn(at, " ");
    }
    return INLAY_OK;
}

/* The size of a dimension of an input; -1: the combination does not state it. */
static int64_t size_of(const inlay_session *session, const size_combination *sizes, const inlay_dim *dim)
{
    inlay_str name;

    if (dim->kind != INLAY_DIM_SYMBOLIC)
        return dim->kind == INLAY_DIM_FIXED ? dim->value : -1;
    name = session->model->symbols[dim->symbol].name;
    for (uint32_t i = 0; i < sizes->count; i++)
        if (sizes->list[i].name_bytes == name.bytes && memcmp(sizes->list[i].name, name.data, name.bytes) == 0)
            return sizes->list[i].size;
    return -1;
}

/* Replaces the names by those that the model has for these dimensions. */
static inlay_status find_names(const inlay_session *session, size_combination *sizes, inlay_diag *diag)
{
    for (uint32_t i = 0; i < sizes->count; i++) {
        named_size *named = &sizes->list[i];
        const uint32_t symbol = graph_find_dim(session->model, named->name, named->name_bytes);

        if (symbol == 0)
            return graph_no_dim(session->model, "option sizes", named->name, named->name_bytes, diag);
        named->name = session->model->symbols[symbol].name.data;
        named->name_bytes = session->model->symbols[symbol].name.bytes;
    }
    return INLAY_OK;
}

/* Describes the inputs at these sizes, as a run with tensors in host memory does. */
static inlay_status make_key(const inlay_session *session, const size_combination *sizes, struct arena *arena,
                             plan_input *key, inlay_diag *diag)
{
    const struct graph *graph = session->model->main;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        const inlay_value_info *input = &graph->values[graph->inputs[i]].info;
        const bool known = input->kind == INLAY_VALUE_TENSOR && input->rank != INLAY_RANK_UNKNOWN;
        int64_t *dims = arena_array(arena, (size_t)(known ? input->rank : 0) + 1, sizeof *dims);

        if (dims == NULL)
            return no_memory(diag, "for option sizes");
        if (!known && input->kind == INLAY_VALUE_TENSOR)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option sizes: the rank of input '%s' is not known",
                              input->name.data);
        for (uint32_t d = 0; known && d < input->rank; d++) {
            dims[d] = size_of(session, sizes, &input->dims[d]);
            if (dims[d] < 0)
                return inlay_fail(
                    diag, INLAY_INVALID_ARGUMENT, "option sizes: '%s' does not state dimension %u of input '%s'%s%s",
                    sizes->text, d, input->name.data,
                    input->dims[d].kind == INLAY_DIM_SYMBOLIC ? ", " : ", which has no name",
                    input->dims[d].kind == INLAY_DIM_SYMBOLIC ? session->model->symbols[input->dims[d].symbol].name.data
                                                              : "");
        }
        key[i] = (plan_input){ .dtype = input->dtype,
                               .rank = known ? input->rank : INLAY_RANK_UNKNOWN,
                               .dims = dims,
                               .domain = INLAY_DOMAIN_HOST };
    }
    return INLAY_OK;
}

inlay_status session_read_sizes(inlay_session *session, const inlay_options *options, inlay_diag *diag)
{
    const uint32_t inputs = session->model->main->input_count;
    size_combination sizes = { .count = 0 };
    uint32_t count = 0;
    const char *item;

    while (options_list(options, OPTION_sizes, count) != NULL)
        count++;
    session->prepared.inputs = arena_array(&session->arena, (size_t)count + 1, sizeof *session->prepared.inputs);
    if (session->prepared.inputs == NULL)
        return no_memory(diag, "for option sizes");
    for (; (item = options_list(options, OPTION_sizes, session->prepared.count)) != NULL; session->prepared.count++) {
        plan_input *key = arena_array(&session->arena, (size_t)inputs + 1, sizeof *key);
        inlay_status status = key != NULL ? read_item(item, &sizes, diag) : no_memory(diag, "for option sizes");

        if (status == INLAY_OK)
            status = find_names(session, &sizes, diag);
        if (status == INLAY_OK)
            status = make_key(session, &sizes, &session->arena, key, diag);
        if (status != INLAY_OK)
            return status;
        session->prepared.inputs[session->prepared.count] = key;
    }
    return INLAY_OK;
}

inlay_status session_prepare_sizes(const inlay_session *session, struct program *program, inlay_diag *diag)
{
    const uint32_t held = threads_set_limit(session->env.max_threads);
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < session->prepared.count && status == INLAY_OK; i++) {
        if (program->env->progress != NULL)
            status = program->env->progress(program->env->progress_ctx, "preparing sizes", 0);
        if (status == INLAY_OK)
            status = plan_prepare(program, session->prepared.inputs[i], session->model->main->input_count, diag);
        else
            status = inlay_fail(diag, status, "cancelled while sizes were prepared");
    }
    (void)threads_set_limit(held);
    return status;
}
