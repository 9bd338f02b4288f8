/* generate - continues a prompt with a language model on libinlay, and prints the text as it is generated.
 *
 *     generate MODEL [OPTION...] PROMPT
 *
 * MODEL is a decoder with past keys and values as exported by Optimum (input_ids, attention_mask, position_ids,
 * past_key_values.*), a file or the folder as it is published; tokenizer.json is in the folder of the file or the one
 * above. The context keeps the key-value cache, so
 * each step reads one token. At the end the program prints the time to the first token and the tokens per second to
 * stderr. */
#include "files.h"
#include "head.h"
#include "texts/tokens/lookup.h"
#include "model.h"
#include "texts/tokens/sampler.h"
#include "texts/tokens/tokenizer.h"
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_STOPS = 16, MOST_GUESSES = 16, GUESSES = 4 };

struct settings {
    const char *model, *variant, *draft, *prompt, *tokenizer, *threads;
    const char *stops[MOST_STOPS];
    uint32_t stop_count;
    bool chat, shows_tokens, never_ends;
    long tokens, lookup, guesses;
    struct sampler sampler;
};

static double seconds(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Text that is not printed yet, because it may be the beginning of a character or of a stop word. */
struct stream {
    const struct settings *settings;
    char *text;
    size_t bytes, room;
};

/* Number of bytes at the end that may be the beginning of a stop word or of a character. */
static size_t held_back(const struct stream *stream)
{
    size_t held = 0;

    for (size_t n = 1; n <= 3 && n <= stream->bytes; n++) {
        const unsigned char byte = (unsigned char)stream->text[stream->bytes - n];

        if (byte >> 6 == 3 && n < (byte >> 5 == 6 ? 2u : byte >> 4 == 14 ? 3u : 4u))
            held = n;
        if (byte >> 6 != 2)
            break;
    }
    for (uint32_t i = 0; i < stream->settings->stop_count; i++)
        for (size_t n = strlen(stream->settings->stops[i]) - 1; n > held; n--)
            if (n <= stream->bytes && memcmp(stream->text + stream->bytes - n, stream->settings->stops[i], n) == 0)
                held = n;
    return held;
}

static void flush(struct stream *stream, size_t bytes)
{
    (void)fwrite(stream->text, 1, bytes, stdout);
    (void)fflush(stdout);
    memmove(stream->text, stream->text + bytes, stream->bytes - bytes);
    stream->bytes -= bytes;
}

/* Prints the text that is final. *stopped: a stop word was found, and the text before it was printed. */
static bool stream_put(struct stream *stream, const char *text, size_t bytes, bool *stopped)
{
    if (stream->bytes + bytes + 1 > stream->room) {
        char *more = realloc(stream->text, 2 * (stream->bytes + bytes + 1));

        if (more == NULL)
            return false;
        stream->text = more;
        stream->room = 2 * (stream->bytes + bytes + 1);
    }
    memcpy(stream->text + stream->bytes, text, bytes);
    stream->bytes += bytes;
    *stopped = false;
    for (uint32_t i = 0; i < stream->settings->stop_count; i++) {
        const char *at =
            memmem(stream->text, stream->bytes, stream->settings->stops[i], strlen(stream->settings->stops[i]));

        if (at != NULL) {
            stream->bytes = (size_t)(at - stream->text);
            *stopped = true;
        }
    }
    flush(stream, *stopped ? stream->bytes : stream->bytes - held_back(stream));
    return true;
}

static bool is_end(const struct model *model, int64_t token)
{
    for (uint32_t i = 0; i < model->end_count; i++)
        if (model->ends[i] == token)
            return true;
    return false;
}

static char *wrap_chat(const struct settings *settings, const struct tokenizer *tokenizer)
{
    static const char form[] = "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n";
    char *text = NULL;

    if (!settings->chat)
        return strdup(settings->prompt);
    if (tokenizer_id(tokenizer, "<|im_start|>") < 0 || tokenizer_id(tokenizer, "<|im_end|>") < 0) {
        fprintf(stderr, "generate: --chat is for models with <|im_start|> and <|im_end|>; this one has its own form\n");
        return NULL;
    }
    return asprintf(&text, form, settings->prompt) < 0 ? NULL : text;
}

/* Wall-clock time, and CPU time of all threads after the first token. */
struct times {
    double begin, first, cpu;
};

/* A text while it is generated. */
struct text {
    int64_t *tokens; /* [count] owned */
    size_t count, made;
    size_t runs, guesses, right; /* runs so far; guesses that these runs have read, and guesses that were right */
    struct stream out;
    struct times times;
    bool stopped;
};

static void report(const struct text *text, size_t prompt)
{
    const struct times *times = &text->times;
    const size_t made = text->made;
    const double took = seconds(CLOCK_MONOTONIC) - times->first, cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - times->cpu;

    fprintf(stderr, "\nprompt %zu tokens, first token after %.1f ms; then %zu tokens", prompt,
            (times->first - times->begin) * 1e3, made > 0 ? made - 1 : 0);
    if (made > 1)
        fprintf(stderr, ", %.1f a second (%.2f ms each, %.2f ms of CPU)", (double)(made - 1) / took,
                took * 1e3 / (double)(made - 1), cpu * 1e3 / (double)(made - 1));
    if (text->guesses > 0)
        fprintf(stderr, "; %zu of %zu guesses were right, %.2f tokens by a run", text->right, text->guesses,
                (double)made / (double)text->runs);
    fprintf(stderr, "\n");
}

static void show_tokens(const int64_t *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "%s%lld", i > 0 ? "," : "tokens ", (long long)tokens[i]);
    fprintf(stderr, "\n");
}

/* Chooses the next token by logits [vocabulary], adds it to the text and prints it. false: failed. */
static bool add_next(struct settings *settings, const struct model *model, const struct tokenizer *tokenizer,
                     struct text *text, float *logits, size_t vocabulary)
{
    const int64_t next = sampler_next(&settings->sampler, logits, vocabulary, text->tokens, text->count);
    const char *part;
    size_t bytes = 0;
    bool special = false;

    if (next < 0) {
        fprintf(stderr, "generate: no token could be chosen\n");
        return false;
    }
    text->tokens[text->count++] = next;
    if (text->made++ == 0) {
        text->times.first = seconds(CLOCK_MONOTONIC);
        text->times.cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    }
    part = tokenizer_bytes(tokenizer, next, &bytes, &special);
    text->stopped = is_end(model, next) && !settings->never_ends;
    return text->stopped || part == NULL || special || stream_put(&text->out, part, bytes, &text->stopped);
}

/* What guesses the next tokens. */
struct drafter {
    struct model *model; /* NULL: none */
    struct head *head;   /* NULL: the draft model is a decoder */
};

/* Reads what the draft model has not read yet, up to the last of `found` guesses; as model_read(). */
static bool read_draft(const struct drafter *draft, const struct text *text, const int64_t *guesses, size_t found,
                       float **logits, size_t *vocabulary)
{
    const int64_t length = inlay_context_state_length(draft->model->context);

    if (draft->head != NULL)
        return head_read(draft->head, text->tokens, text->count, guesses, found, logits, vocabulary);
    return model_read(draft->model, found > 0 ? &guesses[found - 1] : text->tokens + length,
                      found > 0 ? 1 : (int64_t)text->count - length, 0, logits, vocabulary);
}

/* Guesses at most `most` tokens that follow the text: those that the draft model would choose with the same random
 * numbers. Returns their number. */
static size_t guess_next(struct settings *settings, const struct drafter *draft, const struct text *text, size_t most,
                         int64_t *guesses)
{
    const uint64_t state = settings->sampler.state;
    size_t found = 0;

    if (draft->head != NULL ? !head_rewind(draft->head) : !model_rewind(draft->model, text->count - 1))
        return 0;
    while (found < most) {
        size_t vocabulary = 0;
        float *logits = NULL;
        int64_t next;

        if (!read_draft(draft, text, guesses, found, &logits, &vocabulary))
            break;
        next = sampler_next(&settings->sampler, logits, vocabulary, text->tokens, text->count);
        if (next < 0)
            break;
        guesses[found++] = next;
    }
    settings->sampler.state = state;
    return found;
}

/* Runs the model on the tokens after the first `read`, and on guesses of the next ones. Adds the token that follows; as
 * long as the added token was guessed, adds the next one, too. draft: its context may have wrong tokens. */
static bool step(struct settings *settings, struct model *model, const struct drafter *draft,
                 const struct tokenizer *tokenizer, struct text *text, size_t read)
{
    int64_t guesses[MOST_GUESSES], *more = realloc(text->tokens, (text->count + 1 + MOST_GUESSES) * sizeof *more);
    size_t found = 0, right = 0, vocabulary = 0;
    float *logits = NULL;

    if (more == NULL) {
        fprintf(stderr, "generate: out of memory\n");
        return false;
    }
    text->tokens = more;
    if (text->made > 0)
        found = lookup_next(more, text->count, (size_t)settings->lookup, guesses);
    if (text->made > 0 && found == 0 && draft->model != NULL)
        found = guess_next(settings, draft, text, (size_t)settings->guesses, guesses);
    memcpy(more + text->count, guesses, found * sizeof *guesses);
    if (!model_read(model, more + read, (int64_t)(text->count + found - read), (int64_t)found, &logits, &vocabulary))
        return false;
    text->runs++;
    text->guesses += found;
    while (add_next(settings, model, tokenizer, text, logits + right * vocabulary, vocabulary)) {
        const bool goes_on = right < found && text->tokens[text->count - 1] == guesses[right];

        right += goes_on ? 1 : 0;
        if (goes_on && !text->stopped && text->made < (size_t)settings->tokens)
            continue;
        text->right += right;
        /* The last token is not read yet. The draft model has read the guesses but the last one. */
        return (draft->head == NULL || head_keep(draft->head, model, read, text->count - 1 - read)) &&
               model_rewind(model, text->count - 1) &&
               (draft->model == NULL || draft->head != NULL || model_rewind(draft->model, text->count - 1));
    }
    return false;
}

static bool generate(struct settings *settings, struct model *model, const struct drafter *draft,
                     const struct tokenizer *tokenizer, int64_t **tokens, size_t *count)
{
    const size_t prompt = *count;
    struct text text = { .tokens = *tokens,
                         .count = *count,
                         .out = { settings, NULL, 0, 0 },
                         .times = { .begin = seconds(CLOCK_MONOTONIC) } };
    bool ok = true;

    while (ok && !text.stopped && text.made < (size_t)settings->tokens)
        ok = step(settings, model, draft, tokenizer, &text, text.made > 0 ? text.count - 1 : 0);
    flush(&text.out, text.out.bytes);
    report(&text, prompt);
    if (settings->shows_tokens)
        show_tokens(text.tokens, text.count);
    free(text.out.text);
    *tokens = text.tokens;
    *count = text.count;
    return ok;
}

enum {
    KEY_TEMPERATURE = 256,
    KEY_TOP_K,
    KEY_TOP_P,
    KEY_PENALTY,
    KEY_SEED,
    KEY_STOP,
    KEY_CHAT,
    KEY_THREADS,
    KEY_TOKENIZER,
    KEY_LOOKUP,
    KEY_DRAFT,
    KEY_GUESSES,
    KEY_SHOW_TOKENS,
    KEY_IGNORE_END,
    KEY_VARIANT
};

static const struct argp_option options[] = {
    { "tokens", 'n', "N", 0, "Stop after N tokens (default: 256)", 0 },
    { "temperature", KEY_TEMPERATURE, "T", 0, "Sampling temperature; 0 = always the most probable token (default)", 0 },
    { "top-k", KEY_TOP_K, "K", 0, "Sample from the K most probable tokens; 0 = all (default)", 0 },
    { "top-p", KEY_TOP_P, "P", 0, "Sample from the smallest set of tokens with this probability (default: 1)", 0 },
    { "penalty", KEY_PENALTY, "R", 0, "Make previous tokens less probable; 1 = no penalty (default)", 0 },
    { "seed", KEY_SEED, "N", 0, "Seed of the sampling (default: 0)", 0 },
    { "stop", KEY_STOP, "TEXT", 0, "End before this text; may be repeated", 0 },
    { "chat", KEY_CHAT, NULL, 0, "Format the prompt as a question to a chat model (ChatML)", 0 },
    { "threads", KEY_THREADS, "N", 0, "Threads of a run (default: all CPUs)", 0 },
    { "variant", KEY_VARIANT, "NAME", 0, "Weights to use, if MODEL is a folder: fp32, fp16, q8, q4 ...", 0 },
    { "tokenizer", KEY_TOKENIZER, "FILE", 0, "Path of tokenizer.json (default: the model's folder or its parent)", 0 },
    { "lookup", KEY_LOOKUP, "N", 0,
      "Let each run check N guesses of the next tokens: those that followed the last ones earlier (default: 0)", 0 },
    { "draft", KEY_DRAFT, "FILE", 0,
      "Let each run check guesses of a draft model: a smaller one with the same tokens, or a head (default: none)", 0 },
    { "guesses", KEY_GUESSES, "N", 0, "Tokens that the draft model guesses for a run (default: 4)", 0 },
    { "show-tokens", KEY_SHOW_TOKENS, NULL, 0, "Print the ids of all tokens to stderr", 0 },
    { "ignore-end", KEY_IGNORE_END, NULL, 0, "Continue after a token that ends the text, for timing", 0 },
    { 0 }
};

/* Parses a number from least to most, or ends the program. */
static double number(const char *arg, double least, double most, const char *name, struct argp_state *state)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(arg, &end);
    if (end == arg || *end != '\0' || errno != 0 || !(value >= least && value <= most))
        argp_error(state, "--%s %s: expected a number from %g to %g", name, arg, least, most);
    return value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct settings *settings = state->input;

    switch (key) {
    case 'n':
        settings->tokens = (long)number(arg, 1, 1e6, "tokens", state);
        break;
    case KEY_TEMPERATURE:
        settings->sampler.temperature = (float)number(arg, 0, 100, "temperature", state);
        break;
    case KEY_TOP_K:
        settings->sampler.top_k = (uint32_t)number(arg, 0, 1e6, "top-k", state);
        break;
    case KEY_TOP_P:
        settings->sampler.top_p = (float)number(arg, 0, 1, "top-p", state);
        break;
    case KEY_PENALTY:
        settings->sampler.penalty = (float)number(arg, 0.01, 100, "penalty", state);
        break;
    case KEY_SEED:
        settings->sampler.state = (uint64_t)number(arg, 0, 9e15, "seed", state);
        break;
    case KEY_STOP:
        if (arg[0] == '\0' || settings->stop_count == MOST_STOPS)
            argp_error(state, "--stop: expected at most %d texts, none of them empty", MOST_STOPS);
        settings->stops[settings->stop_count++] = arg;
        break;
    case KEY_CHAT:
        settings->chat = true;
        break;
    case KEY_THREADS:
        settings->threads = arg;
        break;
    case KEY_VARIANT:
        settings->variant = arg;
        break;
    case KEY_TOKENIZER:
        settings->tokenizer = arg;
        break;
    case KEY_LOOKUP:
        settings->lookup = (long)number(arg, 0, MOST_GUESSES, "lookup", state);
        break;
    case KEY_DRAFT:
        settings->draft = arg;
        break;
    case KEY_GUESSES:
        settings->guesses = (long)number(arg, 1, MOST_GUESSES, "guesses", state);
        break;
    case KEY_SHOW_TOKENS:
        settings->shows_tokens = true;
        break;
    case KEY_IGNORE_END:
        settings->never_ends = true;
        break;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "'%s' is one argument too many: put the prompt in quotes", arg);
        *(state->arg_num == 0 ? &settings->model : &settings->prompt) = arg;
        break;
    case ARGP_KEY_END:
        if (state->arg_num < 2)
            argp_error(state, "a model and a prompt are needed");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* Opens the draft model, if one is given. */
static bool open_draft(const struct settings *settings, const struct model *model, const struct tokenizer *tokenizer,
                       struct model *draft, struct head *head, struct drafter *out)
{
    inlay_io_info logits = { .struct_size = sizeof logits };

    if (settings->draft == NULL)
        return true;
    if (!model_open(settings->draft, settings->threads, settings->model, draft))
        return false;
    out->model = draft;
    if (!text_head_is_likely(draft->session))
        return model_check(draft);
    out->head = head;
    (void)inlay_session_output(model->session, model->logits, &logits);
    return head_open(draft, model,
                     logits.rank == 3 && logits.dims[2] > 0 ? (size_t)logits.dims[2] : tokenizer_count(tokenizer),
                     head);
}

int main(int argc, char **argv)
{
    static const struct argp parser = { options, parse, "MODEL PROMPT", "Continues PROMPT by a language model.", NULL,
                                        NULL,    NULL };
    struct settings settings = { .variant = "", .tokens = 256, .guesses = GUESSES, .sampler = SAMPLER_INIT };
    char file[PATH_MAX], path[PATH_MAX], error[512], *text = NULL;
    int64_t *tokens = NULL;
    struct tokenizer *tokenizer = NULL;
    size_t count = 0;
    struct model model = { 0 }, draft = { 0 };
    struct head head = { 0 };
    struct drafter drafter = { NULL, NULL };
    bool ok = false;

    if (argp_parse(&parser, argc, argv, 0, NULL, &settings) != 0)
        return EXIT_FAILURE;
    if (!files_model(settings.model, settings.variant, file))
        return EXIT_FAILURE;
    settings.model = file;
    if (settings.tokenizer == NULL && !files_find(settings.model, "tokenizer.json", path)) {
        fprintf(stderr, "generate: no tokenizer.json in the folder of %s or its parent; set --tokenizer\n",
                settings.model);
        return EXIT_FAILURE;
    }
    tokenizer = tokenizer_open(settings.tokenizer != NULL ? settings.tokenizer : path, error, sizeof error);
    if (tokenizer == NULL) {
        fprintf(stderr, "generate: %s\n", error);
        return EXIT_FAILURE;
    }
    text = wrap_chat(&settings, tokenizer);
    if (text != NULL && (!tokenizer_encode(tokenizer, text, !settings.chat, &tokens, &count) || count == 0))
        fprintf(stderr, "generate: the prompt has no tokens\n");
    else if (text != NULL && model_open(settings.model, settings.threads, NULL, &model) && model_check(&model) &&
             open_draft(&settings, &model, tokenizer, &draft, &head, &drafter))
        ok = generate(&settings, &model, &drafter, tokenizer, &tokens, &count);
    head_close(&head);
    model_close(&model);
    model_close(&draft);
    tokenizer_close(tokenizer);
    sampler_deinit(&settings.sampler);
    free(tokens);
    free(text);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
