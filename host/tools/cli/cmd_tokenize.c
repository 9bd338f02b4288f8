/* inlay tokenize: the tokens of a text. */
#include "cli/text_work.h"
#include <stdlib.h>
#include <string.h>

static const char doc_tokenize[] =
    "Prints the tokens of a text, one a line: the id and the text of each.\v"
    "Without --text, the text is read from standard input. The special tokens that the tokenizer "
    "puts around a text are "
    "included, unless --rendered is given.\n\n"
    "Examples:\n"
    "  inlay tokenize model.gguf --text 'Hello, world'\n"
    "  inlay tokenize model.gguf --json < text.txt\n";

static const cli_option options_of_tokenize[] = {
    { "text", "TEXT", "The text", CLI_TEXT(text_args, prompt) },
    { "rendered", NULL, "Add no special tokens", CLI_SET(text_args, is_rendered) },
    { "tokenizer", "FILE", "tokenizer.json (default: the model folder)", CLI_READ(text_args, tokenizer) },
    CLI_MODEL(text_args, model),
    { 0 },
};

/* Prints a token's text with control characters as \xHH. */
static void print_token(int64_t token, const char *text)
{
    (void)printf("%lld\t", (long long)token);
    for (const char *at = text; *at != '\0'; at++) {
        const unsigned char byte = (unsigned char)*at;

        if (byte < ' ' || byte == 127 || byte == '\\')
            (void)printf("\\x%02x", byte);
        else
            (void)putchar(byte);
    }
    (void)putchar('\n');
}

/* Prints the tokens, or makes *out_json of them. */
static inlay_status list_tokens(const inlay_text_model *model, const int64_t *tokens, size_t count, bool as_json,
                                json_t **out_json, inlay_diag *diag)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        char text[4096];
        size_t bytes;
        inlay_status status = inlay_text_model_detokenize(model, &tokens[i], 1, text, sizeof text, &bytes, diag);

        if (status != INLAY_OK) {
            json_decref(list);
            return status;
        }
        if (as_json)
            (void)json_array_append_new(list,
                                        json_pack("{s:I, s:s}", "id", (json_int_t)tokens[i], "text", cli_text(text)));
        else
            print_token(tokens[i], text);
    }
    *out_json = json_pack("{s:o}", "tokens", list);
    return INLAY_OK;
}

int cmd_tokenize(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_tokenize, options_of_tokenize, NULL };
    text_args args = TEXT_ARGS_INIT;
    struct strbuf read = { 0 };
    inlay_text_model *model = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    cli_common common;
    int64_t *tokens = NULL;
    json_t *json = NULL;
    inlay_status status;
    uint32_t flags;
    size_t count;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    flags = args.is_rendered ? INLAY_TEXT_RENDERED : 0u;
    INLAY_TRY(text_work_open(&common, &args, &model, &diag));
    cli_progress_clear();
    if (args.prompt == NULL)
        INLAY_TRY(text_work_read("-", &read, &diag));
    args.prompt = args.prompt != NULL ? args.prompt : read.data;
    INLAY_TRY(inlay_text_model_tokenize(model, args.prompt, strlen(args.prompt), flags, NULL, 0, &count, &diag));
    tokens = calloc(count + 1, sizeof *tokens);
    if (tokens == NULL) {
        status = no_memory(&diag, "for the tokens");
        goto done;
    }
    INLAY_TRY(inlay_text_model_tokenize(model, args.prompt, strlen(args.prompt), flags, tokens, count, &count, &diag));
    INLAY_TRY(list_tokens(model, tokens, count, common.json, &json, &diag));
    if (common.json)
        code = cli_print_json(&common, json, CLI_OK);
    else
        json_decref(json);
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    free(tokens);
    inlay_text_model_destroy(model);
    strbuf_deinit(&read);
    cli_common_deinit(&common);
    return code;
}
