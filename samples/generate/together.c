/* together - continues several prompts with a language model on libinlay, all of them in the same runs.
 *
 *     together MODEL.onnx TEXTS TOKENS PROMPT...
 *
 * At most TEXTS texts are generated at a time, each of at most TOKENS tokens. They are the rows of one context, so that
 * a run makes the next token of each. When a text ends, its row leaves, and the next prompt joins. Each text is printed
 * when it ends, and is the one that `generate` prints for its prompt. Options of the session come from inlay.yaml and
 * the environment, like those of `generate`. */
#include "files.h"
#include "texts/tokens/sampler.h"
#include "texts/tokens/tokenizer.h"
#include <inlay/inlay.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_TEXTS = 64, ROOM = 512 };

struct text {
    const char *prompt;
    int64_t *tokens;
    size_t count, prompt_count;
};

struct work {
    inlay_session *session;
    inlay_rows_info info;
    inlay_context *reader, *main;  /* a prompt is read by the reader; its row then joins main */
    struct text texts[MOST_TEXTS]; /* [row_count] those of the rows of main */
    uint32_t row_count;
    const char *const *prompts; /* [prompt_count] those that wait */
    size_t prompt_count;
    size_t most_tokens;
    int64_t ends[MOST_ENDS];
    uint32_t end_count;
    struct tokenizer *tokenizer;
    struct sampler sampler;
};

static bool complain(const char *what, const inlay_diag *diag)
{
    fprintf(stderr, "together: %s: %s\n", what, diag->text);
    return false;
}

/* Adds the most probable token to the text. logits: [vocabulary]. *out_over: it was the last one. false: failed. */
static bool add_token(struct work *work, struct text *text, float *logits, size_t vocabulary, bool *out_over)
{
    const int64_t token = sampler_next(&work->sampler, logits, vocabulary, text->tokens, text->count);
    int64_t *more = realloc(text->tokens, (text->count + 1) * sizeof *more);

    if (more != NULL)
        text->tokens = more;
    if (more == NULL || token < 0) {
        fprintf(stderr, "together: no token could be chosen\n");
        return false;
    }
    more[text->count++] = token;
    *out_over = text->count - text->prompt_count == work->most_tokens;
    for (uint32_t i = 0; i < work->end_count; i++)
        if (work->ends[i] == token) {
            *out_over = true;
            text->count--; /* the end token is not printed */
            break;
        }
    return true;
}

static void print_text(const struct work *work, const struct text *text)
{
    printf("%s", text->prompt);
    for (size_t i = text->prompt_count; i < text->count; i++) {
        bool special = false;
        size_t bytes = 0;
        const char *part = tokenizer_bytes(work->tokenizer, text->tokens[i], &bytes, &special);

        if (part != NULL && !special)
            (void)fwrite(part, 1, bytes, stdout);
    }
    printf("\n");
}

/* Runs `count` tokens of each row. *out_logits: [rows, *out_columns, *out_vocabulary], of the context until its next
 * run. */
static bool run(const struct work *work, inlay_context *context, const int64_t *tokens, size_t count,
                float **out_logits, size_t *out_columns, size_t *out_vocabulary)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *logits;

    if (inlay_context_set_tokens(context, tokens, (int64_t)count, &diag) != INLAY_OK ||
        inlay_context_run(context, NULL, &diag) != INLAY_OK)
        return complain("the model did not run", &diag);
    logits = inlay_context_output(context, work->info.logits);
    if (logits == NULL || inlay_value_dtype(logits) != INLAY_FLOAT || inlay_value_rank(logits) != 3 ||
        inlay_value_count(logits) == 0 || inlay_value_dims(logits)[0] != inlay_context_row_count(context)) {
        fprintf(stderr, "together: 'logits' is not a float tensor [texts, tokens, vocabulary]\n");
        return false;
    }
    *out_logits = inlay_value_data(logits);
    *out_columns = (size_t)inlay_value_dims(logits)[1];
    *out_vocabulary = (size_t)inlay_value_dims(logits)[2];
    return true;
}

/* Reads the next prompt and makes its row one of main, unless its first token ends it. */
static bool begin_text(struct work *work)
{
    const inlay_row empty = { .context = NULL };
    inlay_row rows[MOST_TEXTS];
    struct text *text = &work->texts[work->row_count];
    inlay_diag diag = INLAY_DIAG_INIT;
    size_t columns, vocabulary;
    float *logits;
    bool over;

    *text = (struct text){ .prompt = *work->prompts++ };
    work->prompt_count--;
    if (!tokenizer_encode(work->tokenizer, text->prompt, true, &text->tokens, &text->count) || text->count == 0) {
        fprintf(stderr, "together: the prompt '%s' has no tokens\n", text->prompt);
        free(text->tokens);
        return false;
    }
    text->prompt_count = text->count;
    work->row_count++;
    if (inlay_context_set_rows(work->reader, &empty, 1, &diag) != INLAY_OK)
        return complain("no row", &diag);
    if (!run(work, work->reader, text->tokens, text->count, &logits, &columns, &vocabulary) ||
        !add_token(work, text, logits + (columns - 1) * vocabulary, vocabulary, &over))
        return false;
    if (over) {
        print_text(work, text);
        free(text->tokens);
        work->row_count--;
        return true;
    }
    for (uint32_t i = 0; i + 1 < work->row_count; i++)
        rows[i] = (inlay_row){ work->main, inlay_context_row_length(work->main, i), i, 0 };
    rows[work->row_count - 1] = (inlay_row){ work->reader, inlay_context_row_length(work->reader, 0), 0, 0 };
    return inlay_context_set_rows(work->main, rows, work->row_count, &diag) == INLAY_OK ||
           complain("the text cannot be added to the context", &diag);
}

/* Makes the next token of each text. The rows of texts that end leave. */
static bool step(struct work *work)
{
    int64_t last[MOST_TEXTS];
    inlay_row rows[MOST_TEXTS];
    inlay_diag diag = INLAY_DIAG_INIT;
    const uint32_t count = work->row_count;
    size_t columns, vocabulary;
    uint32_t left = 0;
    float *logits;

    for (uint32_t i = 0; i < count; i++)
        last[i] = work->texts[i].tokens[work->texts[i].count - 1];
    if (!run(work, work->main, last, 1, &logits, &columns, &vocabulary))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct text *text = &work->texts[i];
        bool over;

        if (!add_token(work, text, logits + i * columns * vocabulary, vocabulary, &over))
            return false;
        if (over) {
            print_text(work, text);
            free(text->tokens);
            text->tokens = NULL;
            continue;
        }
        rows[left] = (inlay_row){ work->main, inlay_context_row_length(work->main, i), i, 0 };
        if (left < i) {
            work->texts[left] = *text;
            text->tokens = NULL;
        }
        left++;
    }
    work->row_count = left;
    return inlay_context_set_rows(work->main, rows, left, &diag) == INLAY_OK ||
           complain("the texts cannot be continued", &diag);
}

static bool open_model(struct work *work, const char *path)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    bool ok;

    work->info.struct_size = sizeof work->info;
    ok = inlay_options_create(&options, &diag) == INLAY_OK && inlay_options_load(options, NULL, &diag) == INLAY_OK &&
         inlay_options_load_environment(options, &diag) == INLAY_OK &&
         inlay_session_create(path, options, &work->session, &diag) == INLAY_OK &&
         inlay_session_rows(work->session, NULL, &work->info, &diag) == INLAY_OK &&
         inlay_context_create(work->session, &work->reader, &diag) == INLAY_OK &&
         inlay_context_create(work->session, &work->main, &diag) == INLAY_OK &&
         inlay_context_keep_rows(work->reader, &work->info, ROOM, &diag) == INLAY_OK &&
         inlay_context_keep_rows(work->main, &work->info, ROOM, &diag) == INLAY_OK;
    inlay_options_destroy(options);
    return ok || complain(path, &diag);
}

static bool open_tokenizer(struct work *work, const char *model)
{
    char path[PATH_MAX], error[512];

    if (!files_find(model, "tokenizer.json", path)) {
        fprintf(stderr, "together: no tokenizer.json in the folder of %s or its parent\n", model);
        return false;
    }
    work->tokenizer = tokenizer_open(path, error, sizeof error);
    if (work->tokenizer == NULL)
        fprintf(stderr, "together: %s\n", error);
    work->end_count = files_ends(model, work->ends);
    return work->tokenizer != NULL;
}

int main(int argc, char **argv)
{
    struct work work = { .sampler = SAMPLER_INIT };
    char file[PATH_MAX];
    long texts = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    bool ok;

    work.most_tokens = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    if (argc < 5 || texts < 1 || texts > MOST_TEXTS || work.most_tokens < 1) {
        fprintf(stderr, "usage: together MODEL TEXTS TOKENS PROMPT...  (1 to %d texts at a time)\n", MOST_TEXTS);
        return EXIT_FAILURE;
    }
    work.prompts = (const char *const *)argv + 4;
    work.prompt_count = (size_t)argc - 4;
    ok = files_model(argv[1], "", file) && open_tokenizer(&work, file) && open_model(&work, file);
    if (ok && work.info.layout == INLAY_ROWS_ALONE && texts > 1) {
        fprintf(stderr, "together: the model does not tell texts apart, or not exactly: one after another\n");
        texts = 1;
    }
    while (ok && (work.row_count > 0 || work.prompt_count > 0)) {
        while (ok && work.prompt_count > 0 && work.row_count < (uint32_t)texts)
            ok = begin_text(&work);
        if (ok && work.row_count > 0)
            ok = step(&work);
    }
    for (uint32_t i = 0; i < work.row_count; i++)
        free(work.texts[i].tokens);
    inlay_context_destroy(work.main);
    inlay_context_destroy(work.reader);
    inlay_session_destroy(work.session);
    tokenizer_close(work.tokenizer);
    sampler_deinit(&work.sampler);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
