/* generate - continues prompts with a language model on libinlay-text, and prints the texts.
 *
 *     generate MODEL [OPTION...] PROMPT...     MODEL: an .onnx or .gguf file, or a folder as Hugging Face publishes it
 *
 * The text of a single prompt is printed as it is generated. Several prompts are continued in the same runs, and each
 * text is printed when it ends, after its prompt. At the end the program prints the time to the first token and the
 * tokens per second to stderr. Options of the session come from inlay.yaml and the environment. */
#include <argp.h>
#include <errno.h>
#include <inlay/text.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_STOPS = 16, MOST_PROMPTS = 256 };

struct settings {
    const char *path, *threads;
    const char *prompts[MOST_PROMPTS], *stops[MOST_STOPS];
    uint32_t prompt_count;
    bool is_chat, shows_tokens;
    inlay_text_options model;
    inlay_text_request request;
};

/* A prompt and its text. */
struct work {
    char *rendered; /* the prompt of a chat; owned; NULL: the prompt as it is */
    inlay_text *text;
    bool is_printed;
};

/* Wall-clock time, and CPU time of all threads after the first token. */
struct times {
    double begin, first, cpu;
};

static double seconds(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool complain(const inlay_diag *diag)
{
    fprintf(stderr, "generate: %s\n", diag->text);
    return false;
}

static inlay_text_info describe(const inlay_text *text)
{
    inlay_text_info info = { .struct_size = sizeof info };

    (void)inlay_text_describe(text, &info);
    return info;
}

static bool open_model(struct settings *settings, inlay_text_model **model)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    bool good = inlay_options_create(&options, &diag) == INLAY_OK &&
                inlay_options_load(options, NULL, &diag) == INLAY_OK &&
                inlay_options_load_environment(options, &diag) == INLAY_OK &&
                /* most runs read one token of each text */
                inlay_options_set(options, "dim", "sequence_length~=1", &diag) == INLAY_OK &&
                (settings->threads == NULL ||
                 inlay_options_set(options, "intra_threads", settings->threads, &diag) == INLAY_OK);

    settings->model.options = options;
    good = good && inlay_text_model_create(settings->path, &settings->model, model, &diag) == INLAY_OK;
    inlay_options_destroy(options);
    return good || complain(&diag);
}

/* Formats a prompt as the question of a user, by the model's chat template. NULL: failed. */
static char *render(inlay_text_model *model, const char *prompt)
{
    const inlay_text_message message = { .role = "user", .content = prompt };
    const inlay_text_chat chat = { .struct_size = sizeof chat, .messages = &message, .message_count = 1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    size_t bytes = 0;
    char *text = inlay_text_model_chat(model, &chat, NULL, 0, &bytes, &diag) == INLAY_OK ? malloc(bytes) : NULL;

    if (text != NULL && inlay_text_model_chat(model, &chat, text, bytes, &bytes, &diag) == INLAY_OK)
        return text;
    free(text);
    (void)complain(&diag);
    return NULL;
}

static bool begin(inlay_text_model *model, const struct settings *settings, uint32_t index, struct work *work)
{
    inlay_text_request request = settings->request;
    inlay_diag diag = INLAY_DIAG_INIT;

    request.prompt = settings->prompts[index];
    if (settings->is_chat) {
        work->rendered = render(model, request.prompt);
        if (work->rendered == NULL)
            return false;
        request.prompt = work->rendered;
        request.flags |= INLAY_TEXT_RENDERED;
    }
    return inlay_text_create(model, &request, &work->text, &diag) == INLAY_OK || complain(&diag);
}

/* Prints what is new of the only text, or each of several texts that has ended. */
static bool print(const struct settings *settings, struct work *works)
{
    for (uint32_t i = 0; i < settings->prompt_count; i++) {
        const bool is_over = describe(works[i].text).state != INLAY_TEXT_RUNS;
        inlay_diag diag = INLAY_DIAG_INIT;
        const char *piece;
        size_t bytes;

        if (works[i].is_printed || (settings->prompt_count > 1 && !is_over))
            continue;
        if (inlay_text_take(works[i].text, &piece, &bytes, &diag) != INLAY_OK)
            return complain(&diag);
        if (settings->prompt_count > 1)
            (void)printf("%s", settings->prompts[i]);
        (void)fwrite(piece, 1, bytes, stdout);
        if (settings->prompt_count > 1)
            (void)printf("\n");
        (void)fflush(stdout);
        works[i].is_printed = is_over;
    }
    return true;
}

static uint64_t count_generated(const struct settings *settings, const struct work *works)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < settings->prompt_count; i++)
        count += describe(works[i].text).generated_tokens;
    return count;
}

static void report(const inlay_text_model *model, const struct settings *settings, const struct work *works,
                   const struct times *times)
{
    inlay_text_model_info info = { .struct_size = sizeof info };
    const double took = seconds(CLOCK_MONOTONIC) - times->first, cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - times->cpu;
    const uint64_t made = count_generated(settings, works);
    uint64_t prompt = 0;

    (void)inlay_text_model_describe(model, &info);
    for (uint32_t i = 0; i < settings->prompt_count; i++)
        prompt += describe(works[i].text).prompt_tokens;
    fprintf(stderr, "\nprompt %llu tokens, first token after %.1f ms; then %llu tokens", (unsigned long long)prompt,
            (times->first - times->begin) * 1e3, (unsigned long long)(made > 0 ? made - 1 : 0));
    if (made > 1)
        fprintf(stderr, ", %.1f a second (%.2f ms each, %.2f ms of CPU)", (double)(made - 1) / took,
                took * 1e3 / (double)(made - 1), cpu * 1e3 / (double)(made - 1));
    if (info.guessed_tokens > 0)
        fprintf(stderr, "; %llu of %llu guesses were right, %.2f tokens by a run",
                (unsigned long long)info.right_tokens, (unsigned long long)info.guessed_tokens,
                (double)made / (double)info.runs);
    fprintf(stderr, "\n");
}

static void show_tokens(const struct settings *settings, const struct work *works)
{
    for (uint32_t k = 0; k < settings->prompt_count; k++) {
        const inlay_text_info info = describe(works[k].text);

        for (uint64_t i = 0; i < info.prompt_tokens + info.generated_tokens; i++)
            fprintf(stderr, "%s%lld", i > 0 ? "," : "tokens ", (long long)info.tokens[i]);
        fprintf(stderr, "\n");
    }
}

static bool generate(inlay_text_model *model, const struct settings *settings, struct work *works)
{
    inlay_text_model_info info = { .struct_size = sizeof info };
    struct times times = { .begin = seconds(CLOCK_MONOTONIC) };
    uint32_t running;

    if (settings->prompt_count > 1 && inlay_text_model_describe(model, &info) == INLAY_OK && info.together == 0)
        fprintf(stderr, "generate: the model does not tell texts apart, or not exactly: one after another\n");
    for (uint32_t i = 0; i < settings->prompt_count; i++)
        if (!begin(model, settings, i, &works[i]))
            return false;
    do {
        running = inlay_text_model_step(model);
        if (times.first <= 0 && count_generated(settings, works) > 0) {
            times.first = seconds(CLOCK_MONOTONIC);
            times.cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        }
        if (!print(settings, works))
            return false;
    } while (running > 0);
    report(model, settings, works, &times);
    if (settings->shows_tokens)
        show_tokens(settings, works);
    return true;
}

enum {
    KEY_TEMPERATURE = 256,
    KEY_TOP_K,
    KEY_TOP_P,
    KEY_PENALTY,
    KEY_SEED,
    KEY_STOP,
    KEY_CHAT,
    KEY_TEXTS,
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
    { "top-k", KEY_TOP_K, "K", 0, "Sample from the K most probable tokens; 0 = all", 0 },
    { "top-p", KEY_TOP_P, "P", 0, "Sample from the smallest set of tokens with this probability", 0 },
    { "penalty", KEY_PENALTY, "R", 0, "Make previous tokens less probable; 1 = no penalty", 0 },
    { "seed", KEY_SEED, "N", 0, "Seed of the sampling (default: 0)", 0 },
    { "stop", KEY_STOP, "TEXT", 0, "End before this text; may be repeated", 0 },
    { "chat", KEY_CHAT, NULL, 0, "Format each prompt as a question, by the model's chat template", 0 },
    { "texts", KEY_TEXTS, "N", 0, "Generate at most N texts at a time (default: 64)", 0 },
    { "threads", KEY_THREADS, "N", 0, "Threads of a run (default: all CPUs)", 0 },
    { "variant", KEY_VARIANT, "NAME", 0, "Weights to use, if MODEL is a folder: fp32, fp16, q8, q4 ...", 0 },
    { "tokenizer", KEY_TOKENIZER, "FILE", 0, "Path of tokenizer.json (default: the model's folder or its parent)", 0 },
    { "lookup", KEY_LOOKUP, "N", 0,
      "Let each run check N guesses of the next tokens: those that followed the last ones earlier (default: 0)", 0 },
    { "draft", KEY_DRAFT, "FILE", 0,
      "Let each run check guesses of a draft model: a smaller one with the same tokens, or a head (default: none)", 0 },
    { "guesses", KEY_GUESSES, "N", 0, "Tokens that the draft model guesses for a run, at most (default: 4)", 0 },
    { "show-tokens", KEY_SHOW_TOKENS, NULL, 0, "Print the ids of all tokens to stderr", 0 },
    { "ignore-end", KEY_IGNORE_END, NULL, 0, "Choose no token that ends the text, for timing", 0 },
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
    inlay_text_request *request = &settings->request;

    switch (key) {
    case 'n':
        request->max_tokens = (uint32_t)number(arg, 1, 1e6, "tokens", state);
        break;
    case KEY_TEMPERATURE:
        request->temperature = (float)number(arg, 0, 2, "temperature", state);
        break;
    case KEY_TOP_K:
        request->top_k = (int32_t)number(arg, 0, 1e6, "top-k", state);
        break;
    case KEY_TOP_P:
        request->top_p = (float)number(arg, 0, 1, "top-p", state);
        break;
    case KEY_PENALTY:
        request->repetition_penalty = (float)number(arg, 0.01, 100, "penalty", state);
        break;
    case KEY_SEED:
        request->seed = (uint64_t)number(arg, 0, 9e15, "seed", state);
        break;
    case KEY_STOP:
        if (arg[0] == '\0' || request->stop_count == MOST_STOPS)
            argp_error(state, "--stop: expected at most %d texts, none of them empty", MOST_STOPS);
        settings->stops[request->stop_count++] = arg;
        break;
    case KEY_CHAT:
        settings->is_chat = true;
        break;
    case KEY_TEXTS:
        settings->model.max_texts = (uint32_t)number(arg, 1, MOST_PROMPTS, "texts", state);
        break;
    case KEY_THREADS:
        settings->threads = arg;
        break;
    case KEY_VARIANT:
        settings->model.variant = arg;
        break;
    case KEY_TOKENIZER:
        settings->model.tokenizer = arg;
        break;
    case KEY_LOOKUP:
        settings->model.lookup_tokens = (uint32_t)number(arg, 0, 16, "lookup", state);
        break;
    case KEY_DRAFT:
        settings->model.draft = arg;
        break;
    case KEY_GUESSES:
        settings->model.draft_tokens = (uint32_t)number(arg, 1, 16, "guesses", state);
        break;
    case KEY_SHOW_TOKENS:
        settings->shows_tokens = true;
        break;
    case KEY_IGNORE_END:
        request->flags |= INLAY_TEXT_IGNORE_ENDS;
        break;
    case ARGP_KEY_ARG:
        if (state->arg_num > MOST_PROMPTS)
            argp_error(state, "there are more than %d prompts", MOST_PROMPTS);
        if (state->arg_num == 0)
            settings->path = arg;
        else
            settings->prompts[settings->prompt_count++] = arg;
        break;
    case ARGP_KEY_END:
        if (settings->prompt_count == 0)
            argp_error(state, "a model and a prompt are needed");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp parser = {
        options, parse, "MODEL PROMPT...", "Continues prompts by a language model.", NULL, NULL, NULL
    };
    static struct settings settings = { .model = { .struct_size = sizeof settings.model, .draft_tokens = 4 },
                                        .request = INLAY_TEXT_REQUEST_INIT };
    static struct work works[MOST_PROMPTS];
    inlay_text_model *model = NULL;
    bool good;

    settings.request.temperature = 0;
    settings.request.max_tokens = 256;
    settings.request.stops = settings.stops;
    if (argp_parse(&parser, argc, argv, 0, NULL, &settings) != 0)
        return EXIT_FAILURE;
    good = open_model(&settings, &model) && generate(model, &settings, works);
    for (uint32_t i = 0; i < settings.prompt_count; i++) {
        inlay_text_destroy(works[i].text);
        free(works[i].rendered);
    }
    inlay_text_model_destroy(model);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
