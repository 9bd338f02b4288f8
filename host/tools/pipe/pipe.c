#include "modelkit/change.h"
#include "modelkit/sized_file.h"
#include "inlay/check.h"
#include "pipe/pipe_parts.h"
#include "base/nearest.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const pipe_steps[] = {
    "decode[:bgr|grey]\tdecode a picture file to pixels: PNG, JPEG, WebP, TIFF, JPEG 2000, BMP, PNM",
    /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): a text of two lines */
    "resize[:H|HxW]\tresize as Pillow does; H alone keeps the ratio; inside=HxW, cover=HxW, filter=NAME, "
    "multiple=N, shrink; without a size: that of the model's input",
    "letterbox[:HxW]\tfit into a frame, keeping the ratio; fill=0..255",
    "crop[:HxW]\tcut out the centre",
    "color:SPACE\tconvert to rgb, bgr, grey, ycbcr or hsv",
    "normalise[:PRESET]\tconvert to planes of floats: half (-1 to 1, the default), unit (0 to 1), imagenet, raw (0 to "
    "255); or "
    "mean=A/B/C:std=A/B/C",
    "audio[:RATE]\tdecode an audio file to samples, one channel (16000 per second)",
    "mel[:whisper|librosa]\tmel spectrogram of samples; rate, n_fft, hop, mels, samples=N",
    "tokenize:FILE\ttext to ids, with tokenizer.json, vocab.txt or a SentencePiece model; max=N",
    "softmax\t(post) scores to probabilities",
    "topk:K[:LABELS]\t(post) the best K, with labels from a file with one label per line",
    "ctc:ALPHABET\t(post) time steps to text; beam=N",
    "detokenize:FILE\t(post) ids to text, with the files of tokenize",
    /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): a text of two lines */
    "boxes[:v8|v5|end|detr]\t(post) boxes of a detector with masks, key points or angles, by its metadata and shapes; "
    "score=X, iou=X, most=N, labels=FILE; boxes are in pixels of the picture after letterbox, in pixels of the model's "
    "input after resize",
    "image[:PRESET]\t(post) planes to pixels, the inverse of normalise",
    "encode[:png|jpg|webp|bmp|ppm]\t(post) encode pixels as a picture file",
    NULL,
};

inlay_status pipe_fail(pipe_chain *chain, const char *format, ...)
{
    char text[384];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return inlay_fail(chain->diag, INLAY_INVALID_ARGUMENT, "step '%.100s': %s", chain->step, text);
}

const char *pipe_option(pipe_chain *chain, const char *name)
{
    const size_t name_bytes = strlen(name);

    for (uint32_t i = 1; i < chain->word_count; i++) {
        if (strncmp(chain->words[i], name, name_bytes) != 0 || chain->words[i][name_bytes] != '=')
            continue;
        chain->used[i] = true;
        return chain->words[i] + name_bytes + 1;
    }
    return NULL;
}

bool pipe_flag(pipe_chain *chain, const char *name)
{
    for (uint32_t i = 1; i < chain->word_count; i++)
        if (strcmp(chain->words[i], name) == 0)
            return chain->used[i] = true;
    return false;
}

char *pipe_word(pipe_chain *chain)
{
    for (uint32_t i = 1; i < chain->word_count; i++) {
        if (chain->used[i] || strchr(chain->words[i], '=') != NULL)
            continue;
        chain->used[i] = true;
        return chain->words[i];
    }
    return NULL;
}

inlay_status pipe_int(pipe_chain *chain, const char *name, int64_t default_value, int64_t min, int64_t max,
                      int64_t *out)
{
    const char *text = pipe_option(chain, name);
    char *end = NULL;

    *out = default_value;
    if (text == NULL)
        return INLAY_OK;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || *out < min || *out > max)
        return pipe_fail(chain, "%s=%s: expected a number from %lld to %lld", name, text, (long long)min,
                         (long long)max);
    return INLAY_OK;
}

inlay_status pipe_float(pipe_chain *chain, const char *name, double default_value, double *out)
{
    const char *text = pipe_option(chain, name);
    char *end = NULL;

    *out = default_value;
    if (text == NULL)
        return INLAY_OK;
    *out = strtod(text, &end);
    return end == text || *end != '\0' ? pipe_fail(chain, "%s=%s: expected a number", name, text) : INLAY_OK;
}

inlay_status pipe_size(pipe_chain *chain, const char *text, int64_t out[2])
{
    char *end = NULL;

    out[0] = strtoll(text, &end, 10);
    out[1] = 0;
    if (end != text && *end == 'x') {
        text = end + 1;
        out[1] = strtoll(text, &end, 10);
        if (out[1] < 1)
            end = NULL;
    }
    if (end == NULL || end == text || *end != '\0' || out[0] < 1 || out[0] > 65500 || out[1] > 65500)
        return pipe_fail(chain, "expected a size, as in 48 (the height) or 224x320 (height x width)");
    return INLAY_OK;
}

int64_t pipe_count_lines(inlay_str text)
{
    int64_t count = text.bytes > 0 && text.data[text.bytes - 1] != '\n' ? 1 : 0;

    for (uint64_t i = 0; i < text.bytes; i++)
        count += text.data[i] == '\n';
    return count;
}

inlay_status pipe_file(pipe_chain *chain, const char *path, inlay_str *out)
{
    enum { MAX_BYTES = 256 << 20 };
    inlay_diag why = INLAY_DIAG_INIT;
    FILE *file;
    char *text = NULL;
    size_t bytes = 0;
    inlay_status status = sized_file_open(path, MAX_BYTES, &file, &bytes, &why);

    if (status == INLAY_OK) {
        text = graph_blob_alloc(chain->model, bytes + 1);
        status = sized_file_read(file, path, text, bytes, &why);
    }
    *out = (inlay_str){ text, bytes };
    return status == INLAY_OK ? status : pipe_fail(chain, "%s", why.text);
}

uint32_t pipe_value(pipe_chain *chain, const char *name)
{
    char text[128];

    name = name != NULL ? name : chain->makes;
    (void)snprintf(text, sizeof text, "%s", name);
    for (uint32_t i = 2; change_has_name(chain->graph, text); i++)
        (void)snprintf(text, sizeof text, "%s_%u", name, i);
    return graph_add_value(chain->graph, text, strlen(text));
}

static void set_type(graph_value *value, inlay_dtype dtype, uint32_t rank, const inlay_dim *dims)
{
    value->info.kind = INLAY_VALUE_TENSOR;
    value->info.dtype = value->declared_dtype = dtype;
    value->info.rank = value->declared_rank = rank;
    value->info.dims = value->declared_dims = dims;
    value->declared = true;
}

/* Declares the type of a value; rank may be INLAY_RANK_UNKNOWN. dims[i] -1: symbolic with names[i], or unknown if that
 * is NULL. */
static inlay_status declare(pipe_chain *chain, uint32_t value, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                            const char *const *names)
{
    const uint32_t axes = rank != INLAY_RANK_UNKNOWN ? rank : 0;
    inlay_dim *declared = arena_array(&chain->model->arena, axes + 1, sizeof *declared);

    if (declared == NULL)
        return no_memory(chain->diag, "for the steps");
    for (uint32_t i = 0; i < axes; i++) {
        if (dims != NULL && dims[i] >= 0) {
            declared[i] = (inlay_dim){ .value = dims[i], .kind = INLAY_DIM_FIXED };
        } else if (names != NULL && names[i] != NULL) {
            declared[i] =
                (inlay_dim){ .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = graph_symbol(chain->model, names[i]) };
            if (declared[i].symbol == 0)
                return no_memory(chain->diag, "for the steps");
        } else {
            declared[i] = (inlay_dim){ .value = -1, .kind = INLAY_DIM_UNKNOWN };
        }
    }
    set_type(&chain->graph->values[value], dtype, rank, declared);
    return INLAY_OK;
}

static inlay_status append(pipe_chain *chain, uint32_t **list, uint32_t *count, uint32_t value)
{
    uint32_t *more = arena_array(&chain->model->arena, *count + 1, sizeof *more);

    if (more == NULL)
        return no_memory(chain->diag, "for the steps");
    if (*count > 0)
        memcpy(more, *list, *count * sizeof *more);
    more[*count] = value;
    *list = more;
    (*count)++;
    return INLAY_OK;
}

static void remove_value(uint32_t *list, uint32_t *count, uint32_t value)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < *count; i++)
        if (list[i] != value)
            list[kept++] = list[i];
    *count = kept;
}

inlay_status pipe_input(pipe_chain *chain, const char *name, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                        const char *const *names)
{
    inlay_status status;

    chain->value = pipe_value(chain, name);
    if (chain->value == INLAY_NONE)
        return no_memory(chain->diag, "for the steps");
    status = declare(chain, chain->value, dtype, rank, dims, names);
    chain->maker = NULL;
    return status == INLAY_OK ? append(chain, &chain->graph->inputs, &chain->graph->input_count, chain->value) : status;
}

inlay_status pipe_node(pipe_chain *chain, const char *domain, const char *op, graph_node **out)
{
    graph_node *node = graph_add_node(chain->graph, op, domain, NULL, 1, 1);
    const uint32_t made = pipe_value(chain, NULL);

    if (node == NULL || made == INLAY_NONE || (domain[0] != '\0' && !graph_model_import(chain->model, domain, 1)))
        return no_memory(chain->diag, "for the steps");
    INLAY_CHECK(chain->value < chain->graph->value_count);
    ((uint32_t *)(uintptr_t)node->info.inputs)[0] = chain->value;
    ((uint32_t *)(uintptr_t)node->info.outputs)[0] = made;
    chain->value = made;
    chain->maker = node;
    *out = node;
    return INLAY_OK;
}

inlay_status pipe_output(pipe_chain *chain, uint32_t value, inlay_dtype dtype, uint32_t rank)
{
    if (chain->output_count == sizeof chain->outputs / sizeof chain->outputs[0])
        return pipe_fail(chain, "more than %zu outputs", sizeof chain->outputs / sizeof chain->outputs[0]);
    INLAY_CHECK(value < chain->graph->value_count);
    chain->outputs[chain->output_count++] = value;
    return declare(chain, value, dtype, rank, NULL, NULL);
}

uint32_t pipe_target_rank(const pipe_chain *chain)
{
    const graph_value *value = chain->target != INLAY_NONE ? &chain->graph->values[chain->target] : NULL;

    return value != NULL && value->declared ? value->declared_rank : INLAY_RANK_UNKNOWN;
}

int64_t pipe_target_size(const pipe_chain *chain, uint32_t axis)
{
    const uint32_t rank = pipe_target_rank(chain);

    if (rank == INLAY_RANK_UNKNOWN || axis >= rank ||
        chain->graph->values[chain->target].declared_dims[axis].kind != INLAY_DIM_FIXED)
        return -1;
    return chain->graph->values[chain->target].declared_dims[axis].value;
}

bool pipe_target_is_nhwc(const pipe_chain *chain)
{
    const uint32_t rank = pipe_target_rank(chain);
    int64_t first, last;

    if (rank != 3 && rank != 4)
        return false;
    first = pipe_target_size(chain, rank - 3);
    last = pipe_target_size(chain, rank - 1);
    return first != 1 && first != 3 && first != 4 && (last == 1 || last == 3 || last == 4);
}

/* Casts *value to the type of the model's input, if it has another type. */
static inlay_status cast_to(pipe_chain *chain, uint32_t *value, inlay_dtype from, inlay_dtype to)
{
    graph_node *node;
    inlay_status status;

    if (from == to || to == INLAY_UNDEFINED || from == INLAY_UNDEFINED)
        return INLAY_OK;
    chain->value = *value;
    status = pipe_node(chain, "", "Cast", &node);
    *value = chain->value;
    return status == INLAY_OK ? graph_set_attr_int(chain->graph, node, "to", to) : status;
}

/* Replaces value `from` by `to` in all nodes. */
static void replace_value(struct graph *graph, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        uint32_t *in = (uint32_t *)(uintptr_t)graph->nodes[i]->info.inputs;
        uint32_t *out = (uint32_t *)(uintptr_t)graph->nodes[i]->info.outputs;

        for (uint32_t k = 0; k < graph->nodes[i]->info.output_count; k++)
            out[k] = out[k] == from ? to : out[k];
        for (uint32_t k = 0; k < graph->nodes[i]->info.input_count; k++)
            in[k] = in[k] == from ? to : in[k];
    }
}

inlay_status pipe_feed(pipe_chain *chain, const char *input, uint32_t value, inlay_dtype dtype, bool *out_found)
{
    *out_found = false;
    for (uint32_t i = 0; i < chain->graph->input_count; i++) {
        const uint32_t value_index = chain->graph->inputs[i];
        inlay_status status;

        if (strcmp(chain->graph->values[value_index].info.name.data, input) != 0)
            continue;
        *out_found = true;
        status = cast_to(chain, &value, dtype,
                         chain->graph->values[value_index].declared ? chain->graph->values[value_index].declared_dtype
                                                                    : INLAY_UNDEFINED);
        if (status != INLAY_OK)
            return status;
        remove_value(chain->graph->inputs, &chain->graph->input_count, value_index);
        replace_value(chain->graph, value, value_index);
        return INLAY_OK;
    }
    return INLAY_OK;
}

void pipe_target_sides(const pipe_chain *chain, int64_t out[2])
{
    const uint32_t rank = pipe_target_rank(chain);
    const uint32_t at = rank == INLAY_RANK_UNKNOWN || rank < 3 ? 0 : rank - (pipe_target_is_nhwc(chain) ? 3 : 2);

    for (uint32_t i = 0; i < 2; i++) {
        const int64_t side = rank == INLAY_RANK_UNKNOWN || rank < 3 ? -1 : pipe_target_size(chain, at + i);

        out[i] = side > 0 ? side : 0;
    }
}

static const pipe_step *find_step(const char *name)
{
    for (const pipe_step *step = pipe_picture_steps; step->name != NULL; step++)
        if (strcmp(step->name, name) == 0)
            return step;
    for (const pipe_step *step = pipe_text_steps; step->name != NULL; step++)
        if (strcmp(step->name, name) == 0)
            return step;
    return NULL;
}

static const char *nth_step(const void *ctx, uint32_t i)
{
    const uint32_t *pictures = ctx;

    return i < *pictures ? pipe_picture_steps[i].name : pipe_text_steps[i - *pictures].name;
}

static inlay_status unknown_step(pipe_chain *chain)
{
    uint32_t pictures = 0, texts = 0;
    char hint[NEAREST_HINT_BYTES];

    while (pipe_picture_steps[pictures].name != NULL)
        pictures++;
    while (pipe_text_steps[texts].name != NULL)
        texts++;
    nearest_hint(hint, "; `inlay pipe --steps` lists them", chain->words[0], nth_step, &pictures, pictures + texts);
    return pipe_fail(chain, "unknown step%s", hint);
}

static inlay_status add_step(pipe_chain *chain, char *text)
{
    const pipe_step *step;
    inlay_status status;

    chain->word_count = 0;
    memset(chain->used, 0, sizeof chain->used);
    for (char *rest = text, *word; (word = strsep(&rest, ":")) != NULL;) {
        if (chain->word_count == PIPE_MAX_WORDS)
            return pipe_fail(chain, "more than %d words between colons", PIPE_MAX_WORDS);
        INLAY_CHECK(chain->word_count < PIPE_MAX_WORDS);
        chain->words[chain->word_count++] = word;
    }
    if (strcmp(chain->words[0], "normalize") == 0)
        chain->words[0] = arena_string(&chain->model->arena, "normalise");
    step = chain->words[0] != NULL ? find_step(chain->words[0]) : NULL;
    if (step == NULL)
        return unknown_step(chain);
    if (chain->post ? !step->post : !step->pre)
        return pipe_fail(chain, "it is a step of --%s",
                         chain->post ? "pre, before the model" : "post, after the model");
    if (chain->kind == PIPE_DONE)
        return pipe_fail(chain, "no step can follow the previous one");
    chain->makes = step->makes;
    status = step->add(chain);
    for (uint32_t i = 1; status == INLAY_OK && i < chain->word_count; i++)
        if (!chain->used[i])
            status = pipe_fail(chain, "unknown word '%s'; `inlay pipe --steps` lists the words of each step",
                               chain->words[i]);
    return status;
}

static inlay_status add_steps(pipe_chain *chain, const char *steps)
{
    char *copy = arena_string(&chain->model->arena, steps);
    inlay_status status = INLAY_OK;

    if (copy == NULL)
        return no_memory(chain->diag, "for the steps");
    for (char *rest = copy, *text; status == INLAY_OK && (text = strsep(&rest, ",")) != NULL;) {
        chain->step = arena_string(&chain->model->arena, text);
        if (chain->step == NULL)
            return no_memory(chain->diag, "for the steps");
        status = add_step(chain, text);
    }
    return status;
}

static uint32_t find_named(const struct graph *graph, const uint32_t *list, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(graph->values[list[i]].info.name.data, name) == 0)
            return list[i];
    return INLAY_NONE;
}

static inlay_status find_target(pipe_chain *chain, const char *what, const char *name, const uint32_t *list,
                                uint32_t count)
{
    chain->target = name != NULL ? find_named(chain->graph, list, count, name) : count > 0 ? list[0] : INLAY_NONE;
    if (chain->target != INLAY_NONE)
        return INLAY_OK;
    if (name != NULL)
        return inlay_fail(chain->diag, INLAY_INVALID_ARGUMENT,
                          "--%s %.150s: the model has no %s with that name; `inlay inspect` lists them", what, name,
                          what);
    return inlay_fail(chain->diag, INLAY_INVALID_ARGUMENT, "the model has no %s", what);
}

/* Fails if the pictures of the chain have other sides than the model's input declares. */
static inlay_status check_sides(pipe_chain *chain)
{
    static const char *const names[] = { "height", "width" };
    int64_t want[2];

    pipe_target_sides(chain, want);
    for (uint32_t i = 0; i < 2; i++)
        if (chain->sides[i] > 0 && want[i] > 0 && chain->sides[i] != want[i])
            return inlay_fail(chain->diag, INLAY_INVALID_ARGUMENT,
                              "--pre makes pictures of %s %lld, but input '%.100s' of the model has %s %lld", names[i],
                              (long long)chain->sides[i], chain->graph->values[chain->target].info.name.data, names[i],
                              (long long)want[i]);
    return INLAY_OK;
}

static inlay_status add_pre_steps(pipe_chain *chain)
{
    const graph_value *value;
    inlay_dtype source_type;
    inlay_status status =
        find_target(chain, "input", chain->request->input, chain->graph->inputs, chain->graph->input_count);

    if (status == INLAY_OK)
        status = add_steps(chain, chain->request->pre);
    if (status == INLAY_OK)
        status = check_sides(chain);
    if (status != INLAY_OK || chain->kind == PIPE_DONE)
        return status;
    value = &chain->graph->values[chain->target];
    source_type = chain->kind == PIPE_PICTURE ? INLAY_UINT8 : INLAY_FLOAT;
    status = cast_to(chain, &chain->value, source_type, value->declared ? value->declared_dtype : INLAY_UNDEFINED);
    if (status != INLAY_OK)
        return status;
    remove_value(chain->graph->inputs, &chain->graph->input_count, chain->target);
    if (chain->maker == NULL) /* the new input is unused: no step added a node */
        return pipe_fail(chain, "the steps change nothing");
    replace_value(chain->graph, chain->value, chain->target);
    return INLAY_OK;
}

static inlay_status add_post_steps(pipe_chain *chain)
{
    uint32_t *list, at = 0, count = 0;
    inlay_status status =
        find_target(chain, "output", chain->request->output, chain->graph->outputs, chain->graph->output_count);

    if (status != INLAY_OK)
        return status;
    chain->value = chain->target;
    chain->kind = PIPE_NUMBERS;
    chain->maker = NULL;
    status = add_steps(chain, chain->request->post);
    if (status == INLAY_OK && chain->kind != PIPE_DONE)
        status = pipe_output(chain, chain->value, chain->kind == PIPE_PICTURE ? INLAY_UINT8 : INLAY_FLOAT,
                             chain->kind == PIPE_PICTURE ? 3 : pipe_target_rank(chain));
    if (status != INLAY_OK)
        return status;
    list = arena_array(&chain->model->arena, chain->graph->output_count + chain->output_count, sizeof *list);
    if (list == NULL)
        return no_memory(chain->diag, "for the steps");
    for (; at < chain->graph->output_count; at++) {
        if (chain->graph->outputs[at] != chain->target) {
            list[count++] = chain->graph->outputs[at];
            continue;
        }
        memcpy(list + count, chain->outputs, chain->output_count * sizeof *list);
        count += chain->output_count;
    }
    chain->graph->outputs = list;
    chain->graph->output_count = count;
    return INLAY_OK;
}

inlay_status pipe_join(graph_model *model, const pipe_request *request, inlay_diag *diag)
{
    pipe_chain chain = { .model = model,
                         .graph = model->main,
                         .diag = diag,
                         .request = request,
                         .value = INLAY_NONE,
                         .target = INLAY_NONE,
                         .place = INLAY_NONE,
                         .makes = "value" };
    inlay_status status = INLAY_OK;

    if (request->pre != NULL)
        status = add_pre_steps(&chain);
    if (status == INLAY_OK && request->post != NULL) {
        chain.post = true;
        status = add_post_steps(&chain);
    }
    return status == INLAY_OK ? graph_finish(model->main, diag) : status;
}
