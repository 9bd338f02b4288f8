/* TfIdfVectorizer: ONNX 9. Counts the n-grams of a pool in each row. Each word is replaced by a number, its index in
 * the sorted vocabulary of the pool, so that n-grams of strings and of integers are looked up the same way: by binary
 * search in the sorted n-grams of their length. */
#include "inlay/check.h"
#include "inlay/graph_view.h"
#include "operators/args.h"
#include "simd/convert.h"
#include "operators/operators.h"

enum { MODE_TF, MODE_IDF, MODE_TFIDF };

/* An n-gram of the pool. */
struct gram {
    const int64_t *words; /* numbers of its words */
    int64_t column;       /* column of the output */
    float weight;
};

/* The n-grams of one length, sorted by their words. */
typedef struct gram_list {
    struct gram *grams;
    int64_t count;
} gram_list;

typedef struct tfidf_state {
    uint32_t mode;
    bool strings;
    int64_t shortest, longest; /* minimum and maximum words of an n-gram */
    int64_t skips;             /* maximum number of words that are skipped between two words of an n-gram */
    int64_t columns;
    inlay_str *vocabulary; /* [vocabulary_count], sorted; strings only */
    int64_t vocabulary_count;
    gram_list *lists; /* [longest]: n-grams of 1, 2, ... words */
    int64_t list_count;
    int64_t *words;
    char *text;
} tfidf_state;

static void release_tfidf(void *opaque)
{
    tfidf_state *state = opaque;

    if (state == NULL)
        return;
    for (int64_t i = 0; i < state->list_count; i++)
        free(state->lists[i].grams);
    free(state->lists);
    free(state->vocabulary);
    free(state->words);
    free(state->text);
    free(state);
}

static int order_texts(const void *first_word, const void *second_word)
{
    const inlay_str *first = first_word, *second = second_word;
    const uint64_t shared = first->bytes < second->bytes ? first->bytes : second->bytes;
    const int order = shared > 0 ? memcmp(first->data, second->data, (size_t)shared) : 0;

    return order != 0 ? order : (first->bytes > second->bytes) - (first->bytes < second->bytes);
}

/* Returns the number of a word, or -1 if no n-gram contains the word. */
static int64_t find_word(const tfidf_state *state, const inlay_str *word)
{
    const inlay_str *found =
        bsearch(word, state->vocabulary, (size_t)state->vocabulary_count, sizeof *state->vocabulary, order_texts);

    return found != NULL ? found - state->vocabulary : -1;
}

static int order_words(const int64_t *first, const int64_t *second, int64_t length)
{
    for (int64_t i = 0; i < length; i++)
        if (first[i] != second[i])
            return first[i] < second[i] ? -1 : 1;
    return 0;
}

/* One step of a heap sort. qsort() is not used, because its comparison function cannot get the length of the
 * n-grams. */
static void sink_gram(struct gram *grams, int64_t count, int64_t at, int64_t length)
{
    const struct gram moving = grams[at];

    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && order_words(grams[child + 1].words, grams[child].words, length) > 0)
            child++;
        if (order_words(grams[child].words, moving.words, length) <= 0)
            break;
        grams[at] = grams[child];
    }
    grams[at] = moving;
}

static void sort_grams(gram_list *list, int64_t length)
{
    for (int64_t i = list->count / 2; i-- > 0;)
        sink_gram(list->grams, list->count, i, length);
    for (int64_t last = list->count - 1; last > 0; last--) {
        const struct gram top = list->grams[0];

        list->grams[0] = list->grams[last];
        list->grams[last] = top;
        sink_gram(list->grams, last, 0, length);
    }
}

/* Copies the strings of the pool, sorts the distinct strings to the vocabulary, and writes the number of each string of
 * the pool to the words of the state. */
static inlay_status number_strings(tfidf_state *state, const inlay_attr_info *pool, inlay_diag *diag)
{
    size_t bytes = 0;
    char *text;

    for (uint32_t i = 0; i < pool->count; i++)
        bytes += (size_t)pool->strings[i].bytes;
    state->text = malloc(bytes + 1);
    state->vocabulary = calloc((size_t)pool->count + 1, sizeof *state->vocabulary);
    if (state->text == NULL || state->vocabulary == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for pool_strings");
    text = state->text;
    for (uint32_t i = 0; i < pool->count; i++) {
        state->vocabulary[i] = (inlay_str){ text, pool->strings[i].bytes };
        if (pool->strings[i].bytes > 0)
            memcpy(text, pool->strings[i].data, (size_t)pool->strings[i].bytes);
        text += pool->strings[i].bytes;
    }
    qsort(state->vocabulary, pool->count, sizeof *state->vocabulary, order_texts);
    for (uint32_t i = 0; i < pool->count; i++)
        if (i == 0 || order_texts(&state->vocabulary[state->vocabulary_count - 1], &state->vocabulary[i]) != 0)
            state->vocabulary[state->vocabulary_count++] = state->vocabulary[i];
    for (uint32_t i = 0; i < pool->count; i++)
        state->words[i] = find_word(state, &pool->strings[i]);
    return INLAY_OK;
}

/* Splits the pool into n-grams: ngram_counts[i] is the start of the n-grams with i + 1 words. */
static inlay_status list_grams(tfidf_state *state, const kit_node *node, int64_t pool_count, inlay_diag *diag)
{
    uint32_t starts_count, index_count;
    const int64_t *starts = kit_attr_ints(node->info, "ngram_counts", &starts_count);
    const int64_t *indexes = kit_attr_ints(node->info, "ngram_indexes", &index_count);
    const inlay_attr_info *weights = kit_attr(node->info, "weights");
    int64_t number = 0;

    if (weights != NULL && weights->count != index_count)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "%u weights for %u ngram_indexes", weights->count, index_count);
    state->lists = calloc((size_t)starts_count + 1, sizeof *state->lists);
    if (state->lists == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for n-grams");
    for (uint32_t i = 0; i < starts_count; i++) {
        const int64_t length = (int64_t)i + 1, begin = starts[i],
                      end = i + 1 < starts_count ? starts[i + 1] : pool_count;
        gram_list *list = &state->lists[i];

        if (begin < 0 || begin > end || end > pool_count || (end - begin) % length != 0)
            return inlay_fail(diag, INLAY_INVALID_MODEL, "ngram_counts[%u] does not match the pool", i);
        list->grams = calloc((size_t)((end - begin) / length) + 1, sizeof *list->grams);
        state->list_count = length;
        if (list->grams == NULL)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for n-grams");
        for (int64_t at = begin; at < end; at += length, number++) {
            if (number >= (int64_t)index_count || indexes[number] < 0 || indexes[number] > INT32_MAX)
                return inlay_fail(diag, INLAY_INVALID_MODEL,
                                  "ngram_indexes has no index for n-gram %lld, or it is out "
                                  "of range",
                                  (long long)number);
            list->grams[list->count++] =
                (struct gram){ state->words + at, indexes[number], weights != NULL ? weights->floats[number] : 1 };
        }
        sort_grams(list, length);
    }
    for (uint32_t i = 0; i < index_count; i++)
        state->columns = indexes[i] + 1 > state->columns ? indexes[i] + 1 : state->columns;
    return INLAY_OK;
}

static inlay_status read_attributes(tfidf_state *state, const kit_node *node, inlay_diag *diag)
{
    static const char *const modes[] = { "TF", "IDF", "TFIDF" };
    const char *mode = kit_attr_string(node->info, "mode", "TF");

    while (state->mode < KIT_COUNT(modes) && strcmp(mode, modes[state->mode]) != 0)
        state->mode++;
    if (state->mode == KIT_COUNT(modes))
        return inlay_fail(diag, INLAY_INVALID_MODEL, "mode '%s' is none of TF, IDF, TFIDF", mode);
    state->shortest = kit_attr_int(node->info, "min_gram_length", 1);
    state->longest = kit_attr_int(node->info, "max_gram_length", 1);
    state->skips = kit_attr_int(node->info, "max_skip_count", 0);
    if (state->shortest < 1 || state->longest < state->shortest || state->longest > INT16_MAX || state->skips < 0 ||
        state->skips > INT16_MAX)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "grams of %lld to %lld words with %lld skips: the lengths must rise from 1, the skips from 0",
                          (long long)state->shortest, (long long)state->longest, (long long)state->skips);
    return INLAY_OK;
}

static inlay_status prepare_tfidf(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const inlay_attr_info *texts = kit_attr(node->info, "pool_strings"), *ints = kit_attr(node->info, "pool_int64s");
    const inlay_attr_info *pool = texts != NULL ? texts : ints;
    tfidf_state *state = calloc(1, sizeof *state);
    inlay_status status = INLAY_OK;

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a state");
    if (pool == NULL || (texts != NULL) != (kit_input_dtype(node, 0) == INLAY_STRING)) {
        status = inlay_fail(diag, INLAY_INVALID_MODEL, "the pool must have the type of the input");
        goto done;
    }
    INLAY_TRY(read_attributes(state, node, diag));
    state->strings = texts != NULL;
    state->words = calloc((size_t)pool->count + 1, sizeof *state->words);
    if (state->words == NULL) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the pool");
        goto done;
    }
    if (state->strings)
        INLAY_TRY(number_strings(state, pool, diag));
    else if (pool->count > 0)
        memcpy(state->words, pool->ints, pool->count * sizeof *state->words);
    INLAY_TRY(list_grams(state, node, (int64_t)pool->count, diag));
    *out_state = state;
    state = NULL;
done:
    release_tfidf(state);
    return status;
}

/* The workspace has the numbers of all words, and the words of the current n-gram for each worker. */
static inlay_status shape_tfidf(const void *opaque, kit_plan *plan, inlay_diag *diag)
{
    const tfidf_state *state = opaque;

    (void)diag;
    plan->workspace_bytes =
        ((uint64_t)plan->in[0].count + (uint64_t)state->longest * plan->max_threads) * sizeof(int64_t);
    return INLAY_OK;
}

typedef struct tfidf_job {
    const tfidf_state *state;
    const int64_t *words;
    int64_t length; /* words of a row */
    int64_t *window;
    float *out;
} tfidf_job;

static const struct gram *find_gram(const gram_list *list, const int64_t *words, int64_t length)
{
    int64_t low = 0, high = list->count;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = order_words(list->grams[middle].words, words, length);

        if (order == 0)
            return &list->grams[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Processes rows [begin, end). */
static inlay_status tfidf_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const tfidf_job *job = user;
    const tfidf_state *state = job->state;
    int64_t *window = job->window + worker * state->longest;

    INLAY_CHECK(state->shortest >= 1 && job->length >= 0);
    for (int64_t row = begin; row < end; row++) {
        const int64_t *words = job->words + row * job->length;
        float *out = job->out + row * state->columns;

        memset(out, 0, (size_t)state->columns * sizeof *out);
        for (int64_t length = state->shortest; length <= state->longest && length <= state->list_count; length++) {
            const gram_list *list = &state->lists[length - 1];

            /* A single word has no skips. */
            for (int64_t step = 1; step <= (length == 1 ? 1 : state->skips + 1) && list->count > 0; step++) {
                for (int64_t first = 0; first + (length - 1) * step < job->length; first++) {
                    const struct gram *found;

                    for (int64_t index = 0; index < length; index++)
                        window[index] = words[first + index * step];
                    found = find_gram(list, window, length);
                    if (found == NULL)
                        continue;
                    if (state->mode == MODE_IDF)
                        out[found->column] = found->weight;
                    else
                        out[found->column] += state->mode == MODE_TF ? 1 : found->weight;
                }
            }
        }
    }
    return INLAY_OK;
}

static inlay_status run_tfidf(const kit_call *call)
{
    const tfidf_state *state = call->state;
    const kit_tensor *input = &call->in[0], *output = &call->out[0];
    int64_t *words = call->workspace, dims[2], rows;
    tfidf_job job = { state, words, 0, words + input->count, output->data };
    inlay_status status;

    if (input->rank != 1 && input->rank != 2)
        return inlay_fail(call->diag, INLAY_SHAPE_MISMATCH, "X must be [C] or [N, C]");
    rows = input->rank == 2 ? input->dims[0] : 1;
    dims[0] = rows;
    dims[input->rank - 1] = state->columns;
    status = arg_expect_dims(call->diag, output, input->rank, dims);
    if (status != INLAY_OK || output->count == 0)
        return status;
    for (int64_t i = 0; i < input->count; i++)
        words[i] = state->strings ? find_word(state, (const inlay_str *)input->data + i) : arg_index(input, i);
    job.length = input->dims[input->rank - 1];
    return kit_parallel(call, rows, 1024 / (job.length + 1) + 1, tfidf_range, &job);
}

static const kit_kernel kernels[] = {
    { .op_type = "TfIdfVectorizer",
      .prepare = prepare_tfidf,
      .release = release_tfidf,
      .shape = shape_tfidf,
      .run = run_tfidf },
};
const kit_table reference_tf_idf_vectorizer = { kernels, KIT_COUNT(kernels) };
