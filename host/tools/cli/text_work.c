#include "cli/text_work.h"
#include "base/clock.h"
#include <errno.h>
#include <string.h>

bool text_finish(void *user, struct argp_state *state)
{
    const text_args *args = user;

    if (args->schema != NULL && args->grammar != NULL)
        cli_refuse(state, CLI_USAGE, "--schema and --grammar exclude each other");
    if (args->min_tokens != TEXT_OPEN && args->max_tokens > 0 && args->min_tokens > args->max_tokens)
        cli_refuse(state, CLI_USAGE, "--min-tokens %u is larger than --tokens %u", args->min_tokens, args->max_tokens);
    return true;
}

error_t text_take_stop(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    text_args *args = field;

    (void)option;
    if (arg[0] == '\0' || args->stop_count == TEXT_STOPS)
        cli_refuse(state, CLI_USAGE, "--stop: at most %d texts, none of them empty", TEXT_STOPS);
    args->stops[args->stop_count++] = arg;
    return 0;
}

inlay_status text_work_open(cli_common *common, const text_args *args, inlay_text_model **out_model, inlay_diag *diag)
{
    inlay_text_options how = { .struct_size = sizeof how,
                               .options = common->options,
                               .variant = cli_folder_variant(),
                               .tokenizer = args->tokenizer,
                               .draft = args->draft,
                               .vision = args->vision,
                               .lookup_tokens = args->lookup,
                               .context = args->context,
                               .max_texts = 1 };
    inlay_text_model_info info = { .struct_size = sizeof info };
    inlay_status status;

    cli_attach(common);
    status = inlay_text_model_create(args->model, &how, out_model, diag);
    if (status == INLAY_OK && inlay_text_model_describe(*out_model, &info) == INLAY_OK && info.warning != NULL)
        cli_write_line(common, 1, info.warning);
    return status;
}

inlay_status text_work_bytes(const char *path, struct strbuf *to, inlay_diag *diag)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char part[4096];
    size_t bytes;
    bool failed;

    if (file == NULL)
        return inlay_fail(diag, INLAY_NOT_FOUND, "%s: %s", path, strerror(errno));
    while ((bytes = fread(part, 1, sizeof part, file)) > 0)
        strbuf_add(to, part, bytes);
    failed = ferror(file) != 0;
    if (file != stdin)
        (void)fclose(file);
    if (failed)
        return inlay_fail(diag, INLAY_IO_ERROR, "%s: it cannot be read", path);
    return to->failed ? no_memory(diag, "to read %s", path) : INLAY_OK;
}

inlay_status text_work_read(const char *path, struct strbuf *to, inlay_diag *diag)
{
    inlay_status status = text_work_bytes(path, to, diag);

    if (status != INLAY_OK)
        return status;
    strbuf_add(to, "", 1);
    if (to->failed)
        return no_memory(diag, "to read %s", path);
    if (strlen(to->data) + 1 < to->size)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: a NUL at byte %zu", path, strlen(to->data));
    return INLAY_OK;
}

inlay_status text_work_request(const text_args *args, inlay_text_request *request, struct strbuf *files,
                               inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    *request = (inlay_text_request)INLAY_TEXT_REQUEST_INIT;
    request->stops = args->stops;
    request->stop_count = args->stop_count;
    request->seed = args->seed != UINT64_MAX ? args->seed : clock_ns();
    request->max_tokens = args->max_tokens;
    request->flags =
        (args->ignores_ends ? INLAY_TEXT_IGNORE_ENDS : 0u) | (args->is_rendered ? INLAY_TEXT_RENDERED : 0u);
    request->top_k = args->top_k != TEXT_OPEN ? (int32_t)args->top_k : -1;
    request->temperature = (float)args->temperature;
    request->top_p = (float)args->top_p;
    request->min_p = (float)args->min_p;
    request->typical_p = (float)args->typical_p;
    request->no_repeat_ngram_size = args->no_repeat != TEXT_OPEN ? args->no_repeat : INLAY_NONE;
    request->min_tokens = args->min_tokens != TEXT_OPEN ? args->min_tokens : INLAY_NONE;
    request->repetition_penalty = (float)args->penalty;
    if (args->schema != NULL)
        status = text_work_read(args->schema, &files[0], diag);
    if (status == INLAY_OK && args->grammar != NULL)
        status = text_work_read(args->grammar, &files[1], diag);
    request->schema = files[0].data;
    request->grammar = files[1].data;
    return status;
}

/* What --json says of a text. */
static json_t *facts_of(const inlay_text *text, const struct strbuf *said)
{
    static const char *const reasons[] = { [INLAY_TEXT_RUNS] = "running",
                                           [INLAY_TEXT_END] = "stop",
                                           [INLAY_TEXT_LENGTH] = "length",
                                           [INLAY_TEXT_STOPPED] = "stopped",
                                           [INLAY_TEXT_FAILED] = "failed" };
    inlay_text_info info = { .struct_size = sizeof info };
    json_t *tokens = json_array();

    (void)inlay_text_describe(text, &info);
    for (uint64_t i = 0; i < info.generated_tokens; i++)
        (void)json_array_append_new(tokens, json_integer(info.tokens[info.prompt_tokens + i]));
    return json_pack("{s:s%, s:s, s:I, s:o}", "text", said->data != NULL ? said->data : "", said->size, "reason",
                     reasons[info.state], "prompt_tokens", (json_int_t)info.prompt_tokens, "tokens", tokens);
}

inlay_status text_work_run(inlay_text_model *model, const inlay_text_request *request, bool prints,
                           bool (*is_over)(void), struct strbuf *to, json_t **out_facts, inlay_diag *diag)
{
    inlay_text *text = NULL;
    inlay_status status = inlay_text_create(model, request, &text, diag);
    uint32_t running = 1;

    while (status == INLAY_OK && running > 0) {
        const char *piece;
        size_t bytes;

        if (is_over())
            inlay_text_stop(text);
        running = inlay_text_model_step(model);
        status = inlay_text_take(text, &piece, &bytes, diag);
        if (status != INLAY_OK)
            break;
        strbuf_add(to, piece, bytes);
        if (prints && bytes > 0) {
            (void)fwrite(piece, 1, bytes, stdout);
            (void)fflush(stdout);
        }
    }
    if (status == INLAY_OK && out_facts != NULL)
        *out_facts = facts_of(text, to);
    inlay_text_destroy(text);
    return status == INLAY_OK && to->failed ? no_memory(diag, "for the text") : status;
}
