#include "texts/draft/head.h"
#include "base/among.h"
#include "base/memory.h"
#include "base/path.h"
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The names that exports give to hidden states. */
static const char *const names[] = { "hidden_states", "last_hidden_state", "hidden_state", "next_hidden_states" };

static bool is_own(const char *name)
{
    return is_among(name, "hidden_states_from_draft recycled_hidden");
}

/* The path of a file in the folder of the head's model. */
static void beside(const char *path, const char *name, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%.*s%s", (int)(path_name(path) - path), path, name);
}

/* Whether the tensor has a vector of known width for each token. */
static bool is_hidden(const inlay_io_info *io)
{
    return io->kind == INLAY_KIND_TENSOR && io->rank == 3 && io->dims[2] > 0 &&
           (io->dtype == INLAY_FLOAT || io->dtype == INLAY_FLOAT16 || io->dtype == INLAY_BFLOAT16);
}

static uint32_t float_bytes(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT ? 4 : 2;
}

static size_t row_bytes(const inlay_io_info *io)
{
    return (size_t)io->dims[2] * float_bytes(io->dtype);
}

static inlay_io_info input_of(head_model model, uint32_t i)
{
    inlay_io_info info = { .struct_size = sizeof info };

    (void)inlay_session_input(model.session, i, &info);
    return info;
}

static inlay_io_info output_of(head_model model, uint32_t i)
{
    inlay_io_info info = { .struct_size = sizeof info };

    (void)inlay_session_output(model.session, i, &info);
    return info;
}

/* Whether input or output i of the session is a state. */
static bool is_state(const inlay_session *session, uint32_t i, bool output)
{
    inlay_state_info state = { .struct_size = sizeof state };

    for (uint32_t k = 0; inlay_session_state(session, k, &state) == INLAY_OK; k++)
        if ((output ? state.output : state.input) == i)
            return true;
    return false;
}

bool text_head_is_likely(const inlay_session *draft)
{
    inlay_io_info io = { .struct_size = sizeof io };

    for (uint32_t i = 0; inlay_session_input(draft, i, &io) == INLAY_OK; i++)
        if (!is_state(draft, i, false) && is_hidden(&io))
            return true;
    return false;
}

/* Finds the inputs. Each must be known: the message names one that is not. */
static inlay_status find_inputs(head_model draft, text_head *head, inlay_diag *diag)
{
    const char *file = path_name(draft.path);
    const uint32_t count = inlay_session_input_count(draft.session);

    head->ids = inlay_session_find_input(draft.session, "input_ids");
    head->mask = inlay_session_find_input(draft.session, "attention_mask");
    head->positions = inlay_session_find_input(draft.session, "position_ids");
    head->last_logits = inlay_session_find_input(draft.session, "last_logits");
    if (head->last_logits != INLAY_NONE && head->last_logits < count) /* the file has it */
        head->last_logits = INLAY_NONE;
    head->hidden = head->own = INLAY_NONE;
    for (uint32_t i = 0; i < count; i++) {
        const inlay_io_info io = input_of(draft, i);
        const bool is_number = i == head->ids || i == head->mask || i == head->positions;

        if ((is_number && io.dtype == INLAY_INT64) || is_state(draft.session, i, false) || io.optional)
            continue;
        if (!is_number && is_hidden(&io) && is_own(io.name))
            head->own = i;
        else if (!is_number && is_hidden(&io) && head->hidden == INLAY_NONE)
            head->hidden = i;
        else
            return inlay_fail(
                diag, INLAY_INVALID_ARGUMENT,
                "input '%.60s' of %.100s is not supplied; a head has input_ids, hidden states [1, tokens, "
                "width], attention_mask, position_ids and states",
                io.name, file);
    }
    if (head->own != INLAY_NONE && head->hidden != INLAY_NONE &&
        input_of(draft, head->own).dtype != input_of(draft, head->hidden).dtype)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inputs '%.60s' and '%.60s' of %.60s have different types",
                          input_of(draft, head->own).name, input_of(draft, head->hidden).name, file);
    return head->ids != INLAY_NONE && head->hidden != INLAY_NONE
               ? INLAY_OK
               : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%.100s has no input %s", file,
                            head->ids == INLAY_NONE ? "'input_ids'" : "of hidden states");
}

/* Finds the output of hidden states for the next row: the only one, or one with a usual name. */
static void find_next(head_model draft, text_head *head)
{
    inlay_io_info io = { .struct_size = sizeof io };
    uint32_t count = 0;

    head->next = INLAY_NONE;
    for (uint32_t i = 0; inlay_session_output(draft.session, i, &io) == INLAY_OK; i++)
        if (i != head->logits && !is_state(draft.session, i, true) && is_hidden(&io)) {
            head->next = i;
            count++;
        }
    for (size_t i = 0; count > 1 && i < sizeof names / sizeof *names; i++) {
        head->next = inlay_session_find_output(draft.session, names[i]);
        io = output_of(draft, head->next);
        count = head->next != INLAY_NONE && is_hidden(&io) ? 1 : count;
    }
    if (count != 1)
        head->next = INLAY_NONE;
}

static inlay_status find_outputs(head_model draft, text_head *head, inlay_diag *diag)
{
    const inlay_io_info input = input_of(draft, head->own != INLAY_NONE ? head->own : head->hidden);
    const inlay_io_info hidden = input_of(draft, head->hidden);
    inlay_io_info next;

    head->logits = inlay_session_find_output(draft.session, "logits");
    if (head->logits == INLAY_NONE)
        head->logits = inlay_session_find_output(draft.session, "draft_logits");
    if (head->logits == INLAY_NONE)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%.100s has no output 'logits'; export the head with the product that makes them",
                          path_name(draft.path));
    head->table = inlay_session_find_output(draft.session, "d2t");
    find_next(draft, head);
    head->dtype = hidden.dtype;
    head->number_bytes = float_bytes(hidden.dtype);
    head->hidden_bytes = row_bytes(&hidden);
    head->own_bytes = row_bytes(&input);
    if (head->next == INLAY_NONE)
        return INLAY_OK;
    next = output_of(draft, head->next);
    if (next.dims[2] != input.dims[2] || next.dtype != input.dtype)
        head->next = INLAY_NONE; /* as in a head that reads several layers and returns one */
    return INLAY_OK;
}

static bool add_source(text_head *head, head_model model, const char *name, size_t length)
{
    char copy[256];
    uint32_t output;

    (void)snprintf(copy, sizeof copy, "%.*s", (int)length, name);
    output = inlay_session_find_output(model.session, copy);
    if (output == INLAY_NONE || head->source_count == HEAD_SOURCES)
        return false;
    head->sources[head->source_count++] = output;
    return true;
}

/* The layers of config.json whose hidden states the head reads: the model's outputs hidden_states.LAYER. */
static bool add_layers(text_head *head, head_model draft, head_model model)
{
    static const char KEY[] = "eagle_aux_hidden_state_layer_ids";
    char path[PATH_MAX], name[64];
    json_t *root;
    const json_t *layers;
    bool found;

    beside(draft.path, "config.json", path);
    root = json_load_file(path, 0, NULL);
    layers = json_object_get(root, KEY);
    if (layers == NULL)
        layers = json_object_get(json_object_get(root, "eagle_config"), KEY);
    found = json_array_size(layers) > 0;
    for (size_t i = 0; found && i < json_array_size(layers); i++) {
        (void)snprintf(name, sizeof name, "hidden_states.%lld",
                       (long long)json_integer_value(json_array_get(layers, i)));
        found = add_source(head, model, name, strlen(name));
    }
    json_decref(root);
    return found;
}

/* Finds the outputs of the model that the head reads: the outputs that draft_hidden names; otherwise the output with
 * the name of the head's input or with a usual name; otherwise the outputs of the layers that config.json lists. */
static inlay_status find_sources(text_head *head, head_model draft, head_model model, const char *outputs,
                                 inlay_diag *diag)
{
    const inlay_io_info input = input_of(draft, head->hidden);
    size_t bytes = 0;

    for (const char *at = outputs; at != NULL && *at != '\0';) {
        const size_t length = strcspn(at, ",");

        if (!add_source(head, model, at, length))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "draft_hidden: the model has no output '%.*s', or it names more than %d outputs",
                              (int)length, at, HEAD_SOURCES);
        at += length + (at[length] == ',');
    }
    if (head->source_count == 0 && !add_source(head, model, input.name, strlen(input.name)))
        for (size_t i = 0; i < sizeof names / sizeof *names && head->source_count == 0; i++)
            (void)add_source(head, model, names[i], strlen(names[i]));
    if (head->source_count == 0 && !add_layers(head, draft, model))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "input '%.60s' of %.60s reads hidden states, but %.60s has no such output; draft_hidden in "
                          "config.yaml names it",
                          input.name, path_name(draft.path), path_name(model.path));
    for (uint32_t i = 0; i < head->source_count; i++) {
        const inlay_io_info output = output_of(model, head->sources[i]);

        if (!is_hidden(&output) || output.dtype != head->dtype)
            return inlay_fail(
                diag, INLAY_INVALID_ARGUMENT,
                "output '%.60s' of %.60s has not the type of input '%.60s' of the head, or no fixed width", output.name,
                path_name(model.path), input.name);
        bytes += row_bytes(&output);
    }
    return bytes == head->hidden_bytes
               ? INLAY_OK
               : inlay_fail(
                     diag, INLAY_INVALID_ARGUMENT,
                     "input '%.60s' of %.60s has %lld numbers for each token, the outputs of %.60s from '%.60s' on "
                     "have %zu",
                     input.name, path_name(draft.path), (long long)input.dims[2], path_name(model.path),
                     output_of(model, head->sources[0]).name, bytes / head->number_bytes);
}

inlay_status text_head_set_targets(text_head *head, inlay_dtype dtype, const void *offsets, size_t count,
                                   inlay_diag *diag)
{
    int64_t *targets;

    if ((dtype != INLAY_INT64 && dtype != INLAY_INT32) || count == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "d2t has no elements of int32 or int64");
    targets = calloc(count, sizeof *targets);
    if (targets == NULL)
        return no_memory(diag, "for the tokens of a head");
    for (size_t i = 0; i < count; i++) {
        const int64_t offset = dtype == INLAY_INT64 ? ((const int64_t *)offsets)[i] : ((const int32_t *)offsets)[i];

        if (offset < -(int64_t)i || offset >= (int64_t)head->words - (int64_t)i) {
            free(targets);
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "d2t[%zu] is %lld: the head's token %zu is none of the model's %zu tokens", i,
                              (long long)offset, i, head->words);
        }
        targets[i] = (int64_t)i + offset;
    }
    free(head->targets);
    head->targets = targets;
    head->target_count = count;
    return INLAY_OK;
}

/* Reads tensor d2t of a safetensors file: the length of a JSON header, the header, the data. */
static inlay_status read_table(text_head *head, const char *path, inlay_diag *diag)
{
    enum { MOST_HEADER = 1 << 20, MOST_TOKENS = 1 << 24 };
    FILE *file = fopen(path, "rb");
    unsigned char size[8];
    uint64_t bytes = 0;
    char *header = NULL;
    void *offsets = NULL;
    const json_t *tensor, *range;
    json_t *root = NULL;
    const char *type;
    long long begin, count;
    inlay_status status;

    if (file == NULL)
        return INLAY_OK;
    for (size_t i = fread(size, 1, sizeof size, file); i-- > 0;)
        bytes = bytes << 8 | size[i];
    if (bytes > 0 && bytes <= MOST_HEADER && (header = malloc(bytes)) != NULL && fread(header, bytes, 1, file) == 1)
        root = json_loadb(header, bytes, 0, NULL);
    tensor = json_object_get(root, "d2t");
    range = json_object_get(tensor, "data_offsets");
    type = json_string_value(json_object_get(tensor, "dtype"));
    begin = json_integer_value(json_array_get(range, 0));
    count = json_integer_value(json_array_get(json_object_get(tensor, "shape"), 0));
    if (type != NULL && (strcmp(type, "I32") == 0 || strcmp(type, "I64") == 0) && begin >= 0 && begin <= LONG_MAX / 2 &&
        count > 0 && count <= MOST_TOKENS && (offsets = calloc((size_t)count, sizeof(int64_t))) != NULL &&
        fseek(file, (long)(8 + bytes) + (long)begin, SEEK_SET) == 0 &&
        fread(offsets, type[1] == '3' ? 4 : 8, (size_t)count, file) == (size_t)count)
        status = text_head_set_targets(head, type[1] == '3' ? INLAY_INT32 : INLAY_INT64, offsets, (size_t)count, diag);
    else
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%.200s has no tensor d2t of int32 or int64", path);
    free(offsets);
    free(header);
    json_decref(root);
    (void)fclose(file);
    return status;
}

/* The head's logits are those of the model's tokens, or a table maps them. */
static inlay_status find_targets(text_head *head, head_model draft, head_model model, inlay_diag *diag)
{
    const inlay_io_info own = output_of(draft, head->logits),
                        logits = output_of(model, inlay_session_find_output(model.session, "logits"));
    char path[PATH_MAX];
    inlay_status status;

    beside(draft.path, "d2t.safetensors", path);
    status = head->table == INLAY_NONE ? read_table(head, path, diag) : INLAY_OK;
    if (status != INLAY_OK)
        return status;
    if (head->table == INLAY_NONE && head->targets == NULL && own.rank == 3 && logits.rank == 3 && own.dims[2] > 0 &&
        logits.dims[2] > 0 && own.dims[2] != logits.dims[2])
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "it has %lld tokens, the model %lld, and there is neither an output 'd2t' nor a file "
                          "d2t.safetensors that maps them",
                          (long long)own.dims[2], (long long)logits.dims[2]);
    return INLAY_OK;
}

inlay_status text_head_find(head_model draft, head_model model, size_t words, const char *outputs, text_head *out,
                            inlay_diag *diag)
{
    inlay_state_info state = { .struct_size = sizeof state };
    inlay_status status = INLAY_OK;

    out->words = words;
    for (uint32_t i = 0; inlay_session_state(draft.session, i, &state) == INLAY_OK; i++)
        if (state.axis == INLAY_NONE)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "state '%.100s' does not grow; a draft model needs keys and values as states",
                              input_of(draft, state.input).name);
    INLAY_TRY(find_inputs(draft, out, diag));
    INLAY_TRY(find_outputs(draft, out, diag));
    INLAY_TRY(find_sources(out, draft, model, outputs, diag));
    INLAY_TRY(find_targets(out, draft, model, diag));
done:
    return status;
}

void text_head_deinit(text_head *head)
{
    free(head->targets);
    *head = (text_head){ .words = 0 };
}
