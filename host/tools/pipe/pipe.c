#include "modelkit/change.h"
#include "pipe/pipe_parts.h"
#include "base/nearest.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const pipe_steps[] = {
    "decode[:bgr|grey]\ta picture file to pixels: PNG, JPEG, WebP, TIFF, JPEG 2000, BMP, PNM",
    /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): a text of two lines */
    "resize[:H|HxW]\tto that size, as Pillow does; H alone keeps the ratio; inside=HxW, cover=HxW, filter=NAME, "
    "multiple=N, shrink; without a size: that of the model's input",
    "letterbox[:HxW]\tas large as it fits into a frame; fill=0..255",
    "crop[:HxW]\tthe middle",
    "color:SPACE\trgb, bgr, grey, ycbcr or hsv",
    "normalise[:PRESET]\tto floats, in planes: half (-1 to 1, the usual), unit (0 to 1), imagenet, raw (0 to 255); or "
    "mean=A/B/C:std=A/B/C",
    "audio[:RATE]\ta sound file to samples, one channel (16000 a second)",
    "mel[:whisper|librosa]\tsamples to a mel spectrogram; rate, n_fft, hop, mels, samples=N",
    "tokenize:FILE\ttext to ids, by tokenizer.json, vocab.txt or a SentencePiece model; max=N",
    "softmax\t(post) scores to probabilities",
    "topk:K[:LABELS]\t(post) the best K, with labels, a line each",
    "ctc:ALPHABET\t(post) steps to text; beam=N",
    "detokenize:FILE\t(post) ids to text, by the files of tokenize",
    "boxes[:v8|v5]\t(post) boxes of a YOLO model; score=X, iou=X, most=N, labels=FILE",
    "image[:PRESET]\t(post) planes to pixels, the way back of normalise",
    "encode[:png|jpg|webp|bmp|ppm]\t(post) pixels to a picture file",
    NULL,
};

/* ------------------------------------------------------------------ a step's words */

inlay_status pipe_fail(pipe_chain *c, const char *format, ...)
{
    char text[384];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return inlay_fail(c->diag, INLAY_INVALID_ARGUMENT, "step '%.100s': %s", c->step, text);
}

const char *pipe_option(pipe_chain *c, const char *name)
{
    const size_t n = strlen(name);

    for (uint32_t i = 1; i < c->word_count; i++) {
        if (strncmp(c->words[i], name, n) != 0 || c->words[i][n] != '=')
            continue;
        c->used[i] = true;
        return c->words[i] + n + 1;
    }
    return NULL;
}

bool pipe_flag(pipe_chain *c, const char *name)
{
    for (uint32_t i = 1; i < c->word_count; i++)
        if (strcmp(c->words[i], name) == 0)
            return c->used[i] = true;
    return false;
}

char *pipe_word(pipe_chain *c)
{
    for (uint32_t i = 1; i < c->word_count; i++) {
        if (c->used[i] || strchr(c->words[i], '=') != NULL)
            continue;
        c->used[i] = true;
        return c->words[i];
    }
    return NULL;
}

inlay_status pipe_int(pipe_chain *c, const char *name, int64_t otherwise, int64_t least, int64_t most, int64_t *out)
{
    const char *text = pipe_option(c, name);
    char *end = NULL;

    *out = otherwise;
    if (text == NULL)
        return INLAY_OK;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || *out < least || *out > most)
        return pipe_fail(c, "%s=%s: expected a number from %lld to %lld", name, text, (long long)least,
                         (long long)most);
    return INLAY_OK;
}

inlay_status pipe_float(pipe_chain *c, const char *name, double otherwise, double *out)
{
    const char *text = pipe_option(c, name);
    char *end = NULL;

    *out = otherwise;
    if (text == NULL)
        return INLAY_OK;
    *out = strtod(text, &end);
    return end == text || *end != '\0' ? pipe_fail(c, "%s=%s: expected a number", name, text) : INLAY_OK;
}

inlay_status pipe_size(pipe_chain *c, const char *text, int64_t out[2])
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
        return pipe_fail(c, "expected a size, as in 48 (the height) or 224x320 (height x width)");
    return INLAY_OK;
}

inlay_status pipe_file(pipe_chain *c, const char *path, inlay_str *out)
{
    enum { MOST = 256 << 20 };
    FILE *f = fopen(path, "rb");
    long bytes = -1;
    char *text = NULL;
    inlay_status status = INLAY_OK;

    if (f != NULL && fseek(f, 0, SEEK_END) == 0)
        bytes = ftell(f);
    if (bytes < 0 || fseek(f, 0, SEEK_SET) != 0) {
        status = pipe_fail(c, "%s: %s", path, strerror(errno));
    } else if (bytes > MOST) {
        status = pipe_fail(c, "%s: more than %d MB", path, MOST >> 20);
    } else {
        text = graph_blob_alloc(c->model, (size_t)bytes + 1);
        if (text == NULL)
            status = no_memory(c->diag, "for %s", path);
        else if (fread(text, 1, (size_t)bytes, f) != (size_t)bytes)
            status = pipe_fail(c, "%s: it can't be read", path);
        else
            text[bytes] = '\0';
    }
    if (f != NULL)
        fclose(f);
    *out = (inlay_str){ text, bytes > 0 ? (uint64_t)bytes : 0 };
    return status;
}

/* ------------------------------------------------------------------ the graph */

uint32_t pipe_value(pipe_chain *c, const char *name)
{
    char text[128];

    name = name != NULL ? name : c->makes;
    (void)snprintf(text, sizeof text, "%s", name);
    for (uint32_t i = 2; change_has_name(c->g, text); i++)
        (void)snprintf(text, sizeof text, "%s_%u", name, i);
    return graph_add_value(c->g, text, strlen(text));
}

static void set_type(graph_value *v, inlay_dtype dtype, uint32_t rank, const inlay_dim *dims)
{
    v->info.kind = INLAY_VALUE_TENSOR;
    v->info.dtype = v->declared_dtype = dtype;
    v->info.rank = v->declared_rank = rank;
    v->info.dims = v->declared_dims = dims;
    v->declared = true;
}

/* dims[i] -1: open, of that name, or of none. */
static inlay_status declare(pipe_chain *c, uint32_t value, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                            const char *const *names)
{
    inlay_dim *own = arena_array(&c->model->arena, rank + 1, sizeof *own);

    if (own == NULL)
        return no_memory(c->diag, "for the steps");
    for (uint32_t i = 0; i < rank; i++) {
        if (dims != NULL && dims[i] >= 0) {
            own[i] = (inlay_dim){ .value = dims[i], .kind = INLAY_DIM_FIXED };
        } else if (names != NULL && names[i] != NULL) {
            own[i] = (inlay_dim){ .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = graph_symbol(c->model, names[i]) };
            if (own[i].symbol == 0)
                return no_memory(c->diag, "for the steps");
        } else {
            own[i] = (inlay_dim){ .value = -1, .kind = INLAY_DIM_UNKNOWN };
        }
    }
    set_type(&c->g->values[value], dtype, rank, own);
    return INLAY_OK;
}

static inlay_status append(pipe_chain *c, uint32_t **list, uint32_t *count, uint32_t value)
{
    uint32_t *more = arena_array(&c->model->arena, *count + 1, sizeof *more);

    if (more == NULL)
        return no_memory(c->diag, "for the steps");
    if (*count > 0)
        memcpy(more, *list, *count * sizeof *more);
    more[*count] = value;
    *list = more;
    (*count)++;
    return INLAY_OK;
}

static void take_out(uint32_t *list, uint32_t *count, uint32_t value)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < *count; i++)
        if (list[i] != value)
            list[kept++] = list[i];
    *count = kept;
}

inlay_status pipe_input(pipe_chain *c, const char *name, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                        const char *const *names)
{
    inlay_status status;

    c->value = pipe_value(c, name);
    if (c->value == INLAY_NONE)
        return no_memory(c->diag, "for the steps");
    status = declare(c, c->value, dtype, rank, dims, names);
    c->maker = NULL;
    return status == INLAY_OK ? append(c, &c->g->inputs, &c->g->input_count, c->value) : status;
}

inlay_status pipe_node(pipe_chain *c, const char *domain, const char *op, graph_node **out)
{
    graph_node *n = graph_add_node(c->g, op, domain, NULL, 1, 1);
    const uint32_t made = pipe_value(c, NULL);

    if (n == NULL || made == INLAY_NONE || (domain[0] != '\0' && !graph_model_import(c->model, domain, 1)))
        return no_memory(c->diag, "for the steps");
    ((uint32_t *)(uintptr_t)n->info.inputs)[0] = c->value;
    ((uint32_t *)(uintptr_t)n->info.outputs)[0] = made;
    c->value = made;
    c->maker = n;
    *out = n;
    return INLAY_OK;
}

inlay_status pipe_output(pipe_chain *c, uint32_t value, inlay_dtype dtype, uint32_t rank)
{
    if (c->output_count == sizeof c->outputs / sizeof c->outputs[0])
        return pipe_fail(c, "too many outputs");
    c->outputs[c->output_count++] = value;
    return declare(c, value, dtype, rank, NULL, NULL);
}

uint32_t pipe_target_rank(const pipe_chain *c)
{
    const graph_value *v = c->target != INLAY_NONE ? &c->g->values[c->target] : NULL;

    return v != NULL && v->declared ? v->declared_rank : INLAY_RANK_UNKNOWN;
}

int64_t pipe_target_size(const pipe_chain *c, uint32_t axis)
{
    const uint32_t rank = pipe_target_rank(c);

    if (rank == INLAY_RANK_UNKNOWN || axis >= rank ||
        c->g->values[c->target].declared_dims[axis].kind != INLAY_DIM_FIXED)
        return -1;
    return c->g->values[c->target].declared_dims[axis].value;
}

bool pipe_target_is_nhwc(const pipe_chain *c)
{
    const uint32_t rank = pipe_target_rank(c);
    int64_t first, last;

    if (rank != 3 && rank != 4)
        return false;
    first = pipe_target_size(c, rank - 3);
    last = pipe_target_size(c, rank - 1);
    return first != 1 && first != 3 && first != 4 && (last == 1 || last == 3 || last == 4);
}

/* Casts the value to the type that the model's input has. */
static inlay_status cast_to(pipe_chain *c, uint32_t *value, inlay_dtype from, inlay_dtype to)
{
    graph_node *n;
    inlay_status status;

    if (from == to || to == INLAY_UNDEFINED || from == INLAY_UNDEFINED)
        return INLAY_OK;
    c->value = *value;
    status = pipe_node(c, "", "Cast", &n);
    *value = c->value;
    return status == INLAY_OK ? graph_set_attr_int(c->g, n, "to", to) : status;
}

/* Makes the node that made `from` make `to`. */
static void give(struct graph *g, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        uint32_t *in = (uint32_t *)(uintptr_t)g->nodes[i]->info.inputs;
        uint32_t *out = (uint32_t *)(uintptr_t)g->nodes[i]->info.outputs;

        for (uint32_t k = 0; k < g->nodes[i]->info.output_count; k++)
            out[k] = out[k] == from ? to : out[k];
        for (uint32_t k = 0; k < g->nodes[i]->info.input_count; k++)
            in[k] = in[k] == from ? to : in[k];
    }
}

inlay_status pipe_feed(pipe_chain *c, const char *input, uint32_t value, inlay_dtype dtype, bool *out_found)
{
    *out_found = false;
    for (uint32_t i = 0; i < c->g->input_count; i++) {
        const uint32_t v = c->g->inputs[i];
        inlay_status status;

        if (strcmp(c->g->values[v].info.name.data, input) != 0)
            continue;
        *out_found = true;
        status = cast_to(c, &value, dtype, c->g->values[v].declared ? c->g->values[v].declared_dtype : INLAY_UNDEFINED);
        if (status != INLAY_OK)
            return status;
        take_out(c->g->inputs, &c->g->input_count, v);
        give(c->g, value, v);
        return INLAY_OK;
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ steps */

static const pipe_step *find_step(const char *name)
{
    for (const pipe_step *s = pipe_picture_steps; s->name != NULL; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    for (const pipe_step *s = pipe_text_steps; s->name != NULL; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

static const char *nth_step(const void *ctx, uint32_t i)
{
    const uint32_t *pictures = ctx;

    return i < *pictures ? pipe_picture_steps[i].name : pipe_text_steps[i - *pictures].name;
}

static inlay_status unknown_step(pipe_chain *c)
{
    uint32_t pictures = 0, texts = 0;
    const char *near;

    while (pipe_picture_steps[pictures].name != NULL)
        pictures++;
    while (pipe_text_steps[texts].name != NULL)
        texts++;
    near = nearest_name(c->words[0], nth_step, &pictures, pictures + texts);
    return pipe_fail(c, "there is no such step%s%s%s; `inlay pipe --help` lists them",
                     near != NULL ? "; did you mean '" : "", near != NULL ? near : "", near != NULL ? "'?" : "");
}

static inlay_status add_step(pipe_chain *c, char *text)
{
    const pipe_step *s;
    inlay_status status;

    c->word_count = 0;
    memset(c->used, 0, sizeof c->used);
    for (char *rest = text, *word; (word = strsep(&rest, ":")) != NULL;) {
        if (c->word_count == PIPE_MOST_WORDS)
            return pipe_fail(c, "more than %d words between colons", PIPE_MOST_WORDS);
        c->words[c->word_count++] = word;
    }
    if (strcmp(c->words[0], "normalize") == 0)
        c->words[0] = arena_string(&c->model->arena, "normalise");
    s = c->words[0] != NULL ? find_step(c->words[0]) : NULL;
    if (s == NULL)
        return unknown_step(c);
    if (c->post ? !s->post : !s->pre)
        return pipe_fail(c, "it stands in --%s", c->post ? "pre, before the model" : "post, behind the model");
    if (c->kind == PIPE_DONE)
        return pipe_fail(c, "nothing follows the step before it");
    c->makes = s->makes;
    status = s->add(c);
    for (uint32_t i = 1; status == INLAY_OK && i < c->word_count; i++)
        if (!c->used[i])
            status = pipe_fail(c, "'%s' is not understood; `inlay pipe --help` lists what it takes", c->words[i]);
    return status;
}

static inlay_status add_steps(pipe_chain *c, const char *steps)
{
    char *copy = arena_string(&c->model->arena, steps);
    inlay_status status = INLAY_OK;

    if (copy == NULL)
        return no_memory(c->diag, "for the steps");
    for (char *rest = copy, *text; status == INLAY_OK && (text = strsep(&rest, ",")) != NULL;) {
        c->step = arena_string(&c->model->arena, text);
        if (c->step == NULL)
            return no_memory(c->diag, "for the steps");
        status = add_step(c, text);
    }
    return status;
}

static uint32_t find_named(const struct graph *g, const uint32_t *list, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(g->values[list[i]].info.name.data, name) == 0)
            return list[i];
    return INLAY_NONE;
}

static inlay_status find_target(pipe_chain *c, const char *what, const char *name, const uint32_t *list, uint32_t count)
{
    c->target = name != NULL ? find_named(c->g, list, count, name) : count > 0 ? list[0] : INLAY_NONE;
    if (c->target != INLAY_NONE)
        return INLAY_OK;
    if (name != NULL)
        return inlay_fail(c->diag, INLAY_INVALID_ARGUMENT,
                          "--%s %.150s: the model has no such %s; `inlay inspect` lists them", what, name, what);
    return inlay_fail(c->diag, INLAY_INVALID_ARGUMENT, "the model has no %s", what);
}

static inlay_status join_pre(pipe_chain *c)
{
    const graph_value *v;
    inlay_dtype have;
    inlay_status status = find_target(c, "input", c->request->input, c->g->inputs, c->g->input_count);

    if (status == INLAY_OK)
        status = add_steps(c, c->request->pre);
    if (status != INLAY_OK || c->kind == PIPE_DONE)
        return status;
    v = &c->g->values[c->target];
    have = c->kind == PIPE_PICTURE ? INLAY_UINT8 : INLAY_FLOAT;
    status = cast_to(c, &c->value, have, v->declared ? v->declared_dtype : INLAY_UNDEFINED);
    if (status != INLAY_OK)
        return status;
    take_out(c->g->inputs, &c->g->input_count, c->target);
    if (c->maker == NULL) /* an input goes on as it is: no step made anything of it */
        return pipe_fail(c, "the steps change nothing");
    give(c->g, c->value, c->target);
    return INLAY_OK;
}

static inlay_status join_post(pipe_chain *c)
{
    uint32_t *list, at = 0, n = 0;
    inlay_status status = find_target(c, "output", c->request->output, c->g->outputs, c->g->output_count);

    if (status != INLAY_OK)
        return status;
    c->value = c->target;
    c->kind = PIPE_NUMBERS;
    c->maker = NULL;
    status = add_steps(c, c->request->post);
    if (status == INLAY_OK && c->kind != PIPE_DONE)
        status = pipe_output(c, c->value, c->kind == PIPE_PICTURE ? INLAY_UINT8 : INLAY_FLOAT,
                             c->kind == PIPE_PICTURE ? 3 : pipe_target_rank(c));
    if (status != INLAY_OK)
        return status;
    list = arena_array(&c->model->arena, c->g->output_count + c->output_count, sizeof *list);
    if (list == NULL)
        return no_memory(c->diag, "for the steps");
    for (; at < c->g->output_count; at++) {
        if (c->g->outputs[at] != c->target) {
            list[n++] = c->g->outputs[at];
            continue;
        }
        memcpy(list + n, c->outputs, c->output_count * sizeof *list);
        n += c->output_count;
    }
    c->g->outputs = list;
    c->g->output_count = n;
    return INLAY_OK;
}

inlay_status pipe_join(graph_model *model, const pipe_request *request, inlay_diag *diag)
{
    pipe_chain c = { .model = model,
                     .g = model->main,
                     .diag = diag,
                     .request = request,
                     .value = INLAY_NONE,
                     .target = INLAY_NONE,
                     .place = INLAY_NONE,
                     .makes = "value" };
    inlay_status status = INLAY_OK;

    if (request->pre != NULL)
        status = join_pre(&c);
    if (status == INLAY_OK && request->post != NULL) {
        c.post = true;
        status = join_post(&c);
    }
    return status == INLAY_OK ? graph_finish(model->main, diag) : status;
}
