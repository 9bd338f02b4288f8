#include "data/feed.h"
#include "base/checked.h"
#include "base/element.h"
#include "base/random.h"
#include "data/csv.h"
#include "data/literal.h"
#include "data/picture.h"
#include "data/raw.h"
#include "inlay/check.h"
#include "data/value.h"
#include "config/options.h"
#include "infer/dim_sums.h"
#include "session/session.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void feed_deinit(struct feed *feed)
{
    free(feed->specs);
    free(feed->made);
    *feed = (struct feed){ 0 };
}

/* The mean of three uniform numbers: bell-shaped, in [-1, 1]. */
static float next_float(uint64_t *state)
{
    uint64_t bits = random_bits(state);
    uint64_t three = (bits & 0xfffff) + (bits >> 20 & 0xfffff) + (bits >> 40 & 0xfffff);
    return (float)((double)three * (2.0 / (3.0 * 0xfffff)) - 1.0);
}

static uint64_t hash_name(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

void feed_random(inlay_dtype dtype, void *data, int64_t count, uint64_t seed)
{
    uint32_t bits = inlay_dtype_bits(dtype);
    size_t bytes = bits / 8;
    char *at = data;

    if (dtype == INLAY_STRING)
        return;
    if (bits < 8) { /* every code is a number */
        for (int64_t i = 0; i < (count * (int64_t)bits + 7) / 8; i++)
            at[i] = (char)random_bits(&seed);
        return;
    }
    for (int64_t i = 0; i < count; i++, at += bytes) {
        float floats[2] = { next_float(&seed), 0 };
        double doubles[2] = { floats[0], 0 };
        uint64_t integer = random_bits(&seed) & (dtype == INLAY_BOOL ? 1 : 7);
        uint32_t word;

        if (dtype == INLAY_COMPLEX64 || dtype == INLAY_COMPLEX128)
            doubles[1] = floats[1] = next_float(&seed);
        memcpy(&word, &floats[0], sizeof word);
        if (dtype == INLAY_FLOAT || dtype == INLAY_COMPLEX64)
            memcpy(at, floats, bytes);
        else if (dtype == INLAY_DOUBLE || dtype == INLAY_COMPLEX128)
            memcpy(at, doubles, bytes);
        else if (dtype == INLAY_FLOAT16)
            memcpy(at, &(uint16_t){ element_half(floats[0]) }, bytes);
        else if (dtype == INLAY_BFLOAT16)
            memcpy(at, &(uint16_t){ (uint16_t)(word >> 16) }, bytes);
        else if (dtype == INLAY_FLOAT8E8M0)
            *at = (char)(124 + integer); /* 1/8 to 16 */
        else if (element_is_float(dtype))
            *at = (char)(1 + (random_bits(&seed) &
                              0xbe)); /* absolute value below 2, both signs, no NaN in any 8-bit type */
        else
            memcpy(at, &integer, bytes); /* little-endian */
    }
}

/* An input to make. */
struct request {
    struct feed *feed;
    const feed_caller *caller;
    const inlay_session *session;
    const inlay_io_info *info;
    uint32_t index;
    inlay_diag *diag;
    const inlay_value_state *guessed; /* see usual_dims() */
    const int64_t *usual;             /* [info->rank] default sizes of the session; NULL = unknown */
};

/* Parses the shape after "random:", for example 2,3,224,224 or 2x3x224x224; "" is rank 0. */
static inlay_status parse_shape(const struct request *request, const char *text, int64_t *dims, uint32_t *out_rank)
{
    *out_rank = 0;
    while (*text != '\0') {
        char *end = NULL;
        long long size;

        errno = 0;
        size = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
        if (size < 0 || errno != 0 || *out_rank == INLAY_MAX_RANK || (*end != '\0' && *end != ',' && *end != 'x'))
            return inlay_fail(request->diag, INLAY_INVALID_ARGUMENT,
                              "--input %s=random:...: expected sizes as in random:2,3,224,224", request->info->name);
        dims[(*out_rank)++] = size;
        text = *end == '\0' ? end : end + 1;
    }
    return INLAY_OK;
}

/* The size that the option dim, or the start of a growing size, gives to a name; -1: none. The texts were checked. */
static int64_t named_dim(const struct feed *feed, const feed_caller *caller, const char *name)
{
    size_t name_bytes = strlen(name);
    option_pair dim;

    for (uint32_t i = 0; i < feed->start_count; i++)
        if (strncmp(feed->starts[i], name, name_bytes) == 0 && feed->starts[i][name_bytes] == '=' &&
            strchr(feed->starts[i] + name_bytes, '+') != NULL)
            return strtoll(feed->starts[i] + name_bytes + 1, NULL, 10);
    for (uint32_t i = 0; options_pair(caller->options, OPTION_dim, i, &dim); i++)
        if ((dim.key_bytes == name_bytes || (dim.key_bytes == name_bytes + 1 && dim.key[name_bytes] == '?')) &&
            memcmp(dim.key, name, name_bytes) == 0)
            return strtoll(dim.value, NULL, 10);
    return -1;
}

/* The sizes that the session's costs assume for an input; NULL: none. */
static const int64_t *priced_dims(const inlay_session *session, uint32_t input, uint32_t rank)
{
    const inlay_value_state *state = &session->main->parts.profile[session->model->main->inputs[input]];

    return state->rank == rank && rank != INLAY_RANK_UNKNOWN ? state->dims : NULL;
}

/* The sizes of an input at which the session was compiled; NULL: none. Unlike those of priced_dims(), the sizes of all
 * inputs fit together. guessed: of
 * session_guess_shapes(); NULL: the session was compiled. */
static const int64_t *usual_dims(const inlay_session *session, const inlay_value_state *guessed, uint32_t input,
                                 uint32_t rank)
{
    const inlay_value_state *states = session->main != NULL ? session->main->parts.compiled_for : guessed, *state;

    if (states == NULL)
        return NULL;
    state = &states[session->model->main->inputs[input]];
    return state->rank == rank && rank != INLAY_RANK_UNKNOWN ? state->dims : NULL;
}

/* The default sizes of an input; NULL: none. */
static const int64_t *default_dims(const struct feed *feed, const inlay_session *session,
                                   const inlay_value_state *guessed, uint32_t input, uint32_t rank)
{
    return feed->costed_sizes ? priced_dims(session, input, rank) : usual_dims(session, guessed, input, rank);
}

/* Sizes of an axis, tried in order if the model refuses the default: frames and lengths of audio, then short lists. */
static const int64_t lengths[] = { 0 /* the default */, 64, 256, 512, 576, 1536, 4096, 16000, 8, 1 };
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

bool feed_next_sizes(struct feed *feed, inlay_status status)
{
    if (!feed->guessed || feed->attempt + 1 >= LENGTHS || status == INLAY_CANCELLED ||
        status == INLAY_DEADLINE_EXCEEDED || status == INLAY_OUT_OF_MEMORY || status == INLAY_UNSUPPORTED ||
        status == INLAY_OK)
        return false;
    feed->attempt++;
    return true;
}

/* Whether an axis other than the first of any input has that name. */
static bool is_length(const inlay_session *session, const char *name)
{
    for (uint32_t i = 0; i < inlay_session_input_count(session) && name[0] != '\0'; i++) {
        inlay_io_info info = { .struct_size = sizeof info };

        if (inlay_session_input(session, i, &info) != INLAY_OK || info.rank > INLAY_MAX_RANK)
            continue;
        for (uint32_t axis = 1; axis < info.rank; axis++)
            if (info.dims[axis] < 0 && strcmp(info.dim_names[axis], name) == 0)
                return true;
    }
    return false;
}

static int64_t guessed_size(const struct request *request, uint32_t axis);

/* The size that an axis with that name has, or will be guessed to have; -1: no input has such an axis. */
static int64_t part_size(void *ctx, const char *name, size_t bytes)
{
    const struct request *request = ctx;
    char text[MAX_TEXT + 1];
    int64_t size;

    (void)snprintf(text, sizeof text, "%.*s", (int)bytes, name);
    size = named_dim(request->feed, request->caller, text);
    for (uint32_t i = 0; size < 0 && strchr(text, ' ') == NULL && i < inlay_session_input_count(request->session);
         i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const bool known = inlay_session_input(request->session, i, &info) == INLAY_OK && info.rank <= INLAY_MAX_RANK;
        const struct request part = { request->feed,
                                      request->caller,
                                      request->session,
                                      &info,
                                      i,
                                      request->diag,
                                      request->guessed,
                                      default_dims(request->feed, request->session, request->guessed, i, info.rank) };

        for (uint32_t axis = 0; known && size < 0 && axis < info.rank; axis++)
            if (info.dims[axis] < 0 && strcmp(info.dim_names[axis], text) == 0)
                size = guessed_size(&part, axis);
    }
    return size;
}

/* The value of a name that is a sum of names ("past + new"); -1: it is not. */
static int64_t sum_size(const struct request *request, const char *name)
{
    struct sum total;

    return strchr(name, ' ') != NULL && sum_read_with(name, part_size, (void *)(uintptr_t)request, &total)
               ? sum_value(&total)
               : -1;
}

/* Whether an open axis is one of a batch, for which 1 is assumed. */
static bool is_batch(const inlay_session *session, const inlay_io_info *info, uint32_t axis)
{
    const char *name = info->dim_names[axis];

    return strcasestr(name, "batch") != NULL || (axis == 0 && !is_length(session, name));
}

/* The length of this attempt for all other open axes; smaller if an input has several, so that none has more than MOST
 * elements in them. */
static int64_t next_length(const struct request *request)
{
    enum { MOST = 1 << 24 };
    int64_t length = lengths[request->feed->attempt];

    for (uint32_t i = 0; i < inlay_session_input_count(request->session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        int64_t elements = 1;

        if (inlay_session_input(request->session, i, &info) != INLAY_OK || info.rank > INLAY_MAX_RANK)
            continue;
        for (uint32_t axis = 0; axis < info.rank; axis++) {
            if (info.dims[axis] >= 0 || is_batch(request->session, &info, axis))
                continue;
            elements *= length;
            if (elements > MOST) { /* count the axes again */
                length /= 2;
                elements = 1;
                axis = UINT32_MAX;
            }
        }
    }
    return length;
}

static int64_t guessed_size(const struct request *request, uint32_t axis)
{
    const inlay_io_info *info = request->info;
    const char *name = info->dim_names[axis];
    int64_t size;

    INLAY_CHECK(axis < info->rank && request->feed->attempt < LENGTHS);

    request->feed->guessed = true;
    size = sum_size(request, name);
    if (size >= 0)
        return size;
    if (request->feed->attempt == 0)
        return request->usual != NULL && request->usual[axis] >= 0 ? request->usual[axis] : 1;
    if (info->rank == 3 && axis == 1 && info->dims[0] >= 0 && info->dims[2] >= 0) /* state: layers, batch, features */
        return 1;
    return is_batch(request->session, info, axis) ? 1 : next_length(request);
}

/* How the user gives the input; value: what --input takes. */
static const char *other_way(const struct request *request, const char *value, char *text, size_t bytes)
{
    if (request->caller->takes_samples)
        return "samples with --data";
    (void)snprintf(text, bytes, "it with --input %s=%s", request->info->name, value);
    return text;
}

static inlay_status assume_shape(const struct request *request, int64_t *dims, uint32_t *out_rank)
{
    const inlay_io_info *info = request->info;
    char way[256];

    if (info->rank == INLAY_RANK_UNKNOWN || info->rank > INLAY_MAX_RANK)
        return inlay_fail(request->diag, INLAY_INVALID_ARGUMENT, "input '%s' has no declared shape: give %s",
                          info->name, other_way(request, "random:SIZES, or a file", way, sizeof way));
    *out_rank = info->rank;
    for (uint32_t i = 0; i < info->rank; i++) {
        dims[i] = info->dims[i];
        if (dims[i] < 0)
            dims[i] = named_dim(request->feed, request->caller, info->dim_names[i]);
        if (dims[i] >= 0)
            continue;
        dims[i] = guessed_size(request, i);
        request->feed->made[request->index] = 1;
    }
    return INLAY_OK;
}

/* The notes of one report. */
struct size_notes {
    char text[1024];
    size_t used;
    uint32_t count, more; /* written; left out */
    bool has_unnamed;
    char input[64]; /* the first input with an unnamed axis */
};

/* Adds "NAME=SIZE" unless the list has it. */
static void add_note(struct size_notes *notes, const char *name, int64_t size)
{
    enum { MOST = 12 };
    char note[160];
    const char *at = notes->text;

    (void)snprintf(note, sizeof note, "%.120s=%" PRId64 ", ", name, size);
    while ((at = strstr(at, note)) != NULL && at != notes->text && at[-1] != ' ')
        at++;
    if (at != NULL)
        return;
    if (notes->count == MOST || notes->used + strlen(note) >= sizeof notes->text) {
        notes->more++;
        return;
    }
    notes->used += (size_t)snprintf(notes->text + notes->used, sizeof notes->text - notes->used, "%s", note);
    notes->count++;
}

/* Adds the sizes of an input that were guessed, not given or determined by other sizes. */
static void note_input(struct size_notes *notes, struct request *request, const inlay_value *value)
{
    const inlay_io_info *info = request->info;

    for (uint32_t axis = 0; axis < info->rank && axis < inlay_value_rank(value); axis++) {
        const char *name = info->dim_names[axis];
        char place[160];

        if (info->dims[axis] >= 0 || named_dim(request->feed, request->caller, name) >= 0 ||
            sum_size(request, name) >= 0)
            continue;
        if (name[0] == '\0') {
            (void)snprintf(place, sizeof place, "%.100s:%u", info->name, axis);
            if (!notes->has_unnamed)
                (void)snprintf(notes->input, sizeof notes->input, "%s", info->name);
            notes->has_unnamed = true;
        }
        add_note(notes, name[0] != '\0' ? name : place, inlay_value_dims(value)[axis]);
    }
}

void feed_report_sizes(const struct feed *feed, feed_caller caller, const inlay_session *session,
                       inlay_value *const *values)
{
    struct feed copy = *feed; /* sum_size() notes its guesses */
    struct size_notes notes = { .used = 0 };

    for (uint32_t i = 0; i < inlay_session_input_count(session) && !caller.quiet; i++) {
        inlay_io_info info = { .struct_size = sizeof info };

        if (feed->made[i] == 0 || values[i] == NULL || inlay_session_input(session, i, &info) != INLAY_OK)
            continue;
        note_input(&notes, &(struct request){ &copy, &caller, session, &info, i, NULL, NULL, NULL }, values[i]);
    }
    if (notes.count == 0)
        return;
    notes.text[notes.used - 2] = '\0'; /* the last ", " */
    (void)fprintf(stderr, "%s: assumed sizes: %s", caller.name, notes.text);
    if (notes.more > 0)
        (void)fprintf(stderr, " and %u more", notes.more);
    if (notes.has_unnamed && caller.takes_samples)
        (void)fprintf(stderr, " (samples: --data)\n");
    else if (notes.has_unnamed)
        (void)fprintf(stderr, " (--input %s=random:SIZES)\n", notes.input);
    else
        (void)fprintf(stderr, " (--dim NAME=N)\n");
}

static inlay_status random_strings(uint32_t rank, const int64_t *dims, uint64_t seed, inlay_value **out_value,
                                   inlay_diag *diag)
{
    static const char *const words[] = { "", "a", "word", "some words", "42", "-1.5", "Zürich", "UPPER" };
    inlay_str *texts = NULL;
    inlay_status status;
    int64_t count;

    if (!dims_count(dims, rank, &count) || (texts = calloc((size_t)count + 1, sizeof *texts)) == NULL)
        return no_memory(diag, "for random strings");
    for (int64_t i = 0; i < count; i++) {
        const char *word = words[random_bits(&seed) & 7];
        texts[i] = (inlay_str){ word, strlen(word) };
    }
    status = inlay_value_create_strings(rank, dims, texts, out_value, diag);
    free(texts);
    return status;
}

/* Sets integers of 32 and 64 bits to 0 or 1: they are usually indexes, and these are valid in most tables. */
static void reduce_integers(inlay_value *tensor)
{
    static const uint64_t integers = INLAY_DTYPE_BIT(INLAY_UINT32) | INLAY_DTYPE_BIT(INLAY_INT32) |
                                     INLAY_DTYPE_BIT(INLAY_UINT64) | INLAY_DTYPE_BIT(INLAY_INT64);
    inlay_dtype dtype = inlay_value_dtype(tensor);
    size_t width = inlay_dtype_bits(dtype) / 8;
    unsigned char *bytes = inlay_value_data(tensor);

    if (dtype <= 0 || dtype >= INLAY_DTYPE_COUNT || (integers & INLAY_DTYPE_BIT(dtype)) == 0)
        return;
    for (uint64_t i = 0; i < inlay_value_bytes(tensor); i++)
        bytes[i] &= i % width == 0; /* little-endian */
}

/* Keys 0 to 3, or words. */
static inlay_status random_map(const struct request *request, uint64_t seed, inlay_value **out_value)
{
    static const inlay_str words[] = { { "a", 1 }, { "b", 1 }, { "word", 4 }, { "42", 2 } };
    const int64_t count = sizeof words / sizeof words[0];
    inlay_value *items[2] = { NULL, NULL };
    inlay_status status;

    if (request->info->key_dtype == INLAY_STRING) {
        status = inlay_value_create_strings(1, &count, words, &items[0], request->diag);
    } else {
        status = inlay_value_create(INLAY_INT64, 1, &count, &items[0], request->diag);
        for (int64_t i = 0; status == INLAY_OK && i < count; i++)
            ((int64_t *)inlay_value_data(items[0]))[i] = i;
    }
    if (status == INLAY_OK && request->info->dtype == INLAY_STRING)
        status = random_strings(1, &count, seed, &items[1], request->diag);
    else if (status == INLAY_OK)
        status = inlay_value_create(request->info->dtype, 1, &count, &items[1], request->diag);
    if (status == INLAY_OK) {
        feed_random(request->info->dtype, inlay_value_data(items[1]), count, seed);
        status = inlay_value_create_list(INLAY_KIND_MAP, request->info->dtype, items, 2, out_value, request->diag);
    }
    inlay_value_unref(items[0]);
    inlay_value_unref(items[1]);
    return status;
}

/* What reads the input as the bytes of a file, for which no random bytes do; NULL: nothing. */
static const char *file_kind(const struct request *request)
{
    static const char *const readers[][2] = { { "DecodeImage", "PICTURE" },
                                              { "ImageDecoder", "PICTURE" },
                                              { "AudioDecoder", "SOUND" } };
    const struct graph *graph = request->session->model->main;

    for (uint32_t i = 0; i < graph->node_count; i++) {
        const inlay_node_info *node = &graph->nodes[i]->info;

        for (size_t k = 0; k < sizeof readers / sizeof readers[0]; k++)
            if (node->input_count > 0 && node->inputs[0] == graph->inputs[request->index] &&
                strcmp(node->op_type.data, readers[k][0]) == 0)
                return readers[k][1];
    }
    return NULL;
}

/* shape is the text after "random:", or NULL. */
static inlay_status make_random(const struct request *request, const char *shape, inlay_value **out_value)
{
    const inlay_io_info *info = request->info;
    uint64_t seed = request->feed->seed ^ hash_name(info->name);
    int64_t dims[INLAY_MAX_RANK];
    uint32_t rank = 0;
    inlay_value *tensor = NULL;
    const char *file = file_kind(request);
    char way[256];
    inlay_status status;

    if (file != NULL && shape == NULL)
        return inlay_fail(request->diag, INLAY_INVALID_ARGUMENT,
                          "input '%s' is a file, whose bytes cannot be random: give %s", info->name,
                          other_way(request, file, way, sizeof way));
    if (info->kind == INLAY_KIND_MAP)
        return random_map(request, seed, out_value);
    if (info->dtype == INLAY_UNDEFINED)
        return inlay_fail(request->diag, INLAY_INVALID_ARGUMENT, "input '%s' cannot be random: give %s", info->name,
                          other_way(request, "FILE", way, sizeof way));
    INLAY_TRY(shape != NULL ? parse_shape(request, shape, dims, &rank) : assume_shape(request, dims, &rank));
    if (info->dtype == INLAY_STRING) {
        INLAY_TRY(random_strings(rank, dims, seed, &tensor, request->diag));
    } else {
        INLAY_TRY(inlay_value_create(info->dtype, rank, dims, &tensor, request->diag));
        feed_random(info->dtype, inlay_value_data(tensor), inlay_value_count(tensor), seed);
        reduce_integers(tensor);
    }
    if (info->kind == INLAY_KIND_TENSOR) {
        *out_value = tensor;
        tensor = NULL;
    } else { /* a list with one item */
        status = inlay_value_create_list(info->kind, info->dtype, &tensor, 1, out_value, request->diag);
    }
done:
    inlay_value_unref(tensor);
    return status;
}

/* Prints the shape of values from a table, or from a list without inner brackets, if two or more sizes from axis
 * `first` on are open. */
static void note_shape(const struct request *request, uint32_t first, const inlay_value *value)
{
    const inlay_io_info *info = request->info;
    uint32_t open = 0, last = 0;
    char shape[128];

    for (uint32_t axis = first; axis < info->rank && info->rank <= INLAY_MAX_RANK; axis++)
        if (info->dims[axis] < 0) {
            open++;
            last = axis;
        }
    if (open < 2 || inlay_value_rank(value) != info->rank || request->caller->quiet)
        return;
    (void)fprintf(stderr, "%s: input '%s': the values have the shape %s", request->caller->name, info->name,
                  dims_text(inlay_value_dims(value), info->rank, ",", shape, sizeof shape));
    if (info->dim_names[last][0] != '\0')
        (void)fprintf(stderr, " (--dim %s=N gives a size)\n", info->dim_names[last]);
    else
        (void)fprintf(stderr, " (a .npy file or inner brackets give another)\n");
}

/* An input from a table. columns: see csv_value(). in_order: the table has the columns of all inputs. */
static inlay_status load_table(const struct request *request, const char *path, bool in_order, inlay_value **out_value)
{
    const uint32_t count = inlay_session_input_count(request->session);
    struct arena arena = { 0 };
    const char **names = arena_array(&arena, (size_t)count + 1, sizeof *names);
    uint32_t first = 0, others = 0, before = 0;
    csv_table table;
    inlay_status status = INLAY_OK;

    if (names == NULL)
        status = no_memory(request->diag, "for %s", path);
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        inlay_io_info other = { .struct_size = sizeof other };

        status = inlay_session_input(request->session, i, &other);
        names[i] = other.name;
        if (i == request->index)
            first = before;
        else if (in_order)
            others += csv_width(&other);
        before += in_order ? csv_width(&other) : 0;
    }
    if (status == INLAY_OK)
        status = csv_read(path, names, count, &arena, &table, request->diag);
    for (uint32_t i = 0; i < count && status == INLAY_OK && count > 1; i++)
        others = csv_has_column(&table, names[i]) ? INLAY_NONE : others;
    if (status == INLAY_OK)
        status = csv_value(&table, request->info, csv_columns(path), first, others, out_value, request->diag);
    if (status == INLAY_OK && !request->caller->quiet)
        (void)fprintf(stderr, "%s: input '%s': %" PRIu64 " rows of %s, %s\n", request->caller->name,
                      request->info->name, table.row_count, table.path,
                      table.head != NULL ? "whose first line is a header" : "without a header");
    if (status == INLAY_OK)
        note_shape(request, 1, *out_value); /* the first axis has the rows */
    arena_deinit(&arena);
    return status;
}

static inlay_status load_picture(const struct request *request, const char *path, inlay_value **out_value)
{
    struct picture_reader *reader = NULL;
    const char *steps;
    inlay_status status;

    INLAY_TRY(picture_open(request->session, request->info, request->caller->options, &reader, request->diag));
    INLAY_TRY(picture_load(reader, path, out_value, request->diag));
    steps = picture_steps(reader);
    if (!request->caller->quiet)
        (void)fprintf(stderr, "%s: input '%s': picture prepared by %s%s (other steps: inlay pipe MODEL --pre STEPS)\n",
                      request->caller->name, request->info->name, steps,
                      strstr(steps, "resize") == NULL && strstr(steps, "letterbox") == NULL
                          ? ", in its own size: --dim NAME=N fixes the model's"
                          : "");
done:
    picture_close(reader);
    return status;
}

/* The value of --input NAME=source. */
static inlay_status load_source(const struct request *request, const char *source, inlay_value **out_value)
{
    const inlay_io_info *info = request->info;
    const bool listed = info->kind == INLAY_KIND_TENSOR || info->kind == INLAY_KIND_OPTIONAL;
    int64_t dims[INLAY_MAX_RANK];
    inlay_io_info sized = *info;
    struct request with_sizes = *request;
    inlay_status status;

    if (info->rank <= INLAY_MAX_RANK) { /* includes the sizes that --dim states */
        for (uint32_t axis = 0; axis < info->rank; axis++)
            dims[axis] = info->dims[axis] >= 0 ? info->dims[axis]
                                               : named_dim(request->feed, request->caller, info->dim_names[axis]);
        sized.dims = dims;
    }
    with_sizes.info = &sized;
    if (listed && literal_is(source) && access(source, F_OK) != 0) {
        status = literal_load(source, &sized, out_value, request->diag);
        if (status == INLAY_OK && strchr(source, '[') == strrchr(source, '['))
            note_shape(&with_sizes, 0, *out_value);
    } else if (listed && csv_is(source))
        status = load_table(&with_sizes, source, false, out_value);
    else if (picture_is_file(source) && picture_fits(&sized))
        return load_picture(&with_sizes, source, out_value);
    else if (raw_is(source, info))
        return raw_load(source, info, out_value, request->diag);
    else
        return value_load(source, info, out_value, request->diag);
    return status == INLAY_OK ? value_wrap(info, out_value, request->diag) : status;
}

static inlay_status make_value(const struct request *request, inlay_value **out_value)
{
    const char *source = NULL;
    size_t name_bytes = strlen(request->info->name);
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < request->feed->spec_count; i++)
        if (strncmp(request->feed->specs[i], request->info->name, name_bytes) == 0 &&
            request->feed->specs[i][name_bytes] == '=')
            source = request->feed->specs[i] + name_bytes + 1;
    if (source != NULL && strcmp(source, "random") == 0)
        return make_random(request, NULL, out_value);
    if (source != NULL && strncmp(source, "random:", 7) == 0)
        return make_random(request, source + 7, out_value);
    if (source != NULL)
        return load_source(request, source, out_value);
    if (request->feed->dir != NULL && csv_is(request->feed->dir))
        return load_table(request, request->feed->dir, true, out_value);
    if (request->feed->dir != NULL) {
        status = value_load_named(request->feed->dir, request->info, out_value, request->diag);
        return status == INLAY_OK && *out_value == NULL && !request->info->optional
                   ? value_missing("input", request->feed->dir, request->info, request->diag)
                   : status;
    }
    return request->info->optional ? INLAY_OK : make_random(request, NULL, out_value);
}

/* Checks that every --input names an input. */
static inlay_status check_names(const struct feed *feed, const inlay_session *session, inlay_diag *diag)
{
    for (uint32_t i = 0; i < feed->spec_count; i++) {
        const char *equals = strchr(feed->specs[i], '=');
        bool found = false;

        /* A name may contain '=': try every position. */
        for (; equals != NULL && !found; equals = strchr(equals + 1, '=')) {
            char name[512];
            (void)snprintf(name, sizeof name, "%.*s", (int)(equals - feed->specs[i]), feed->specs[i]);
            found = inlay_session_find_input(session, name) != INLAY_NONE;
        }
        if (!found) {
            char names[256] = "";
            size_t used = 0;
            for (uint32_t k = 0; k < inlay_session_input_count(session) && used < sizeof names; k++) {
                inlay_io_info info = { .struct_size = sizeof info };
                if (inlay_session_input(session, k, &info) == INLAY_OK)
                    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", k > 0 ? ", " : "", info.name);
            }
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "--input %s: unknown input; the model has %s",
                              feed->specs[i], names[0] != '\0' ? names : "none");
        }
    }
    return INLAY_OK;
}

static inlay_status make_all(struct feed *feed, const feed_caller *caller, const inlay_session *session,
                             inlay_value ***out_values, inlay_diag *diag)
{
    uint32_t count = inlay_session_input_count(session);
    inlay_value **values = calloc((size_t)count + 1, sizeof(inlay_value *));
    struct arena arena = { 0 };
    const inlay_value_state *guessed = session->main == NULL ? session_guess_shapes(session, &arena) : NULL;
    inlay_status status = INLAY_OK;

    *out_values = NULL;
    feed->guessed = false;
    free(feed->made);
    feed->made = calloc((size_t)count + 1, 1);
    if (values == NULL || feed->made == NULL) {
        free((void *)values);
        arena_deinit(&arena);
        return no_memory(diag, "for %u inputs", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        struct request request = { feed, caller, session, &info, i, diag, guessed, NULL };

        INLAY_TRY(inlay_session_input(session, i, &info));
        request.usual = default_dims(feed, session, guessed, i, info.rank);
        INLAY_TRY(make_value(&request, &values[i]));
    }
    *out_values = values;
    values = NULL;
done:
    feed_release(values, session);
    arena_deinit(&arena);
    return status;
}

/* Runs the model once. */
static inlay_status try_values(inlay_value *const *values, const inlay_session *session, const uint32_t *cancel,
                               inlay_diag *diag)
{
    const inlay_run_options options = { .struct_size = sizeof options, .cancel = cancel };
    inlay_context *context = NULL;
    inlay_status status;

    INLAY_TRY(inlay_context_create((inlay_session *)(uintptr_t)session, &context, diag));
    INLAY_TRY(feed_bind(values, session, context, diag));
    INLAY_TRY(inlay_context_run(context, &options, diag));
done:
    inlay_context_destroy(context);
    return status;
}

inlay_status feed_make(struct feed *feed, feed_caller caller, const inlay_session *session, inlay_value ***out_values,
                       inlay_diag *diag)
{
    inlay_status status;

    *out_values = NULL;
    status = feed->dir != NULL && !csv_is(feed->dir) ? value_source("--inputs", feed->dir, diag) : INLAY_OK;
    if (status != INLAY_OK)
        return status;
    status = check_names(feed, session, diag);
    if (status != INLAY_OK)
        return status;
    for (;;) {
        status = make_all(feed, &caller, session, out_values, diag);
        if (status != INLAY_OK)
            return status;
        if (!feed->trial || !feed->guessed ||
            !feed_next_sizes(feed, try_values(*out_values, session, caller.cancel, diag))) {
            /* A failure at all sizes is reported when the model is run. */
            if (!feed->defer_report)
                feed_report_sizes(feed, caller, session, *out_values);
            return INLAY_OK;
        }
        feed_release(*out_values, session);
    }
}

bool feed_has_costed_sizes(inlay_value *const *values, const inlay_session *session)
{
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        const inlay_value *value = values[i];
        const int64_t *dims;

        if (value == NULL || inlay_value_kind(value) != INLAY_KIND_TENSOR)
            continue;
        dims = priced_dims(session, i, inlay_value_rank(value));
        for (uint32_t axis = 0; dims != NULL && axis < inlay_value_rank(value); axis++)
            if (dims[axis] >= 0 && dims[axis] != inlay_value_dims(value)[axis])
                return false;
    }
    return true;
}

inlay_status feed_bind(inlay_value *const *values, const inlay_session *session, inlay_context *context,
                       inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < inlay_session_input_count(session) && status == INLAY_OK; i++)
        if (values[i] != NULL)
            status = inlay_context_set_input(context, i, values[i], diag);
    return status;
}

void feed_release(inlay_value **values, const inlay_session *session)
{
    if (values == NULL)
        return;
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++)
        inlay_value_unref(values[i]);
    free((void *)values);
}
