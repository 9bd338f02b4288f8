/* inlay chat: a chat with a language model. */
#include "cli/screen.h"
#include "cli/text_work.h"
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char doc_chat[] =
    "A chat with a language model. Each line of standard input is a message; answers are printed as they are "
    "generated.\v"
    "The model's chat template formats the messages. In a terminal, /help lists the commands, and Ctrl-C stops an "
    "answer; lines can be edited where libedit is installed. With --json, the messages are printed at the end.\n\n"
    "Examples:\n"
    "  inlay chat model.gguf\n"
    "  inlay chat model.gguf --system 'Answer in one sentence.'\n"
    "  inlay chat model.gguf --vision mmproj.gguf --image cat.png\n"
    "  echo 'Name a prime.' | inlay chat model/ --schema number.json\n";

static error_t take_image(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    text_args *args = field;

    (void)option;
    if (args->image_count == TEXT_IMAGES)
        cli_refuse(state, CLI_USAGE, "--image: at most %d files", TEXT_IMAGES);
    args->images[args->image_count++] = arg;
    return 0;
}

static const cli_option options_of_chat[] = {
    { "system", "TEXT", "The first message, of the role system", CLI_TEXT(text_args, system) },
    { "vision", "FILE", "The model's vision part (mmproj), for --image", CLI_READ(text_args, vision) },
    { "image", "FILE", "An image before the first message; may be repeated", CLI_CALL_ALL(take_image) },
    TEXT_OPTIONS,
    CLI_TEXT_MODEL(text_args, model),
    { 0 },
};

static const char help[] = "/help           these commands\n"
                           "/clear          forget the messages\n"
                           "/system TEXT    forget the messages, and begin with this one\n"
                           "/quit           end, like Ctrl-D\n";

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static bool is_interrupted(void)
{
    return interrupted != 0;
}

/* readline() and add_history() of libedit; NULL: they are not installed, or standard input is no terminal. */
typedef struct line_editor {
    char *(*read)(const char *prompt);
    int (*add)(const char *line);
} line_editor;

static line_editor open_editor(void)
{
    line_editor editor = { NULL, NULL };
    void *library = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? dlopen("libedit.so.2", RTLD_NOW) : NULL;

    FILE **out = library != NULL ? dlsym(library, "rl_outstream") : NULL;
    int terminal = out != NULL ? dup(STDOUT_FILENO) : -1;

    if (terminal >= 0) {
        *out = fdopen(terminal, "w"); /* stdout has no descriptor: base/output.c */
        *(void **)&editor.read = dlsym(library, "readline");
        *(void **)&editor.add = dlsym(library, "add_history");
    }
    if (editor.read == NULL || editor.add == NULL || *out == NULL)
        editor = (line_editor){ NULL, NULL };
    return editor;
}

/* The next line without its end, for free(); *out is NULL: there is none. */
static inlay_status next_line(const line_editor *editor, char **out, inlay_diag *diag)
{
    size_t room = 0;
    ssize_t bytes;

    *out = NULL;
    if (editor->read != NULL) {
        *out = editor->read("> ");
        if (*out != NULL && (*out)[0] != '\0')
            (void)editor->add(*out);
        return INLAY_OK;
    }
    if (isatty(STDIN_FILENO)) {
        (void)printf("> ");
        (void)fflush(stdout);
    }
    errno = 0;
    bytes = getline(out, &room, stdin);
    if (bytes <= 0) {
        free(*out);
        *out = NULL;
        return is_interrupted() || !ferror(stdin)
                   ? INLAY_OK
                   : inlay_fail(diag, INLAY_IO_ERROR, "standard input: %s", strerror(errno));
    }
    if (strlen(*out) < (size_t)bytes)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "standard input: a line has a NUL at byte %zu", strlen(*out));
    while (bytes > 0 && ((*out)[bytes - 1] == '\n' || (*out)[bytes - 1] == '\r'))
        (*out)[--bytes] = '\0';
    return INLAY_OK;
}

static inlay_status add_message(json_t *messages, const char *role, const char *text, size_t bytes, inlay_diag *diag)
{
    json_t *message = json_pack("{s:s, s:s%}", "role", role, "content", text, bytes);

    if (message == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "message %zu is not UTF-8", json_array_size(messages) + 1);
    return json_array_append_new(messages, message) == 0 ? INLAY_OK : no_memory(diag, "for the messages");
}

/* Begins a chat: forgets all messages, and adds `system` as the first one, with the role system (NULL: none). */
static inlay_status begin(json_t *messages, const char *system, inlay_diag *diag)
{
    (void)json_array_clear(messages);
    return system != NULL ? add_message(messages, "system", system, strlen(system), diag) : INLAY_OK;
}

/* Answers the messages, and adds the answer to them. */
static inlay_status answer(inlay_text_model *model, inlay_text_request *request, json_t *messages, bool prints,
                           inlay_diag *diag)
{
    inlay_text_chat chat = { .struct_size = sizeof chat };
    char *json = json_dumps(messages, 0), *prompt = NULL;
    struct strbuf said = { 0 };
    inlay_status status;
    size_t bytes = 0;

    chat.json = json;
    if (json == NULL)
        return no_memory(diag, "for the messages");
    INLAY_TRY(inlay_text_model_chat(model, &chat, NULL, 0, &bytes, diag));
    prompt = malloc(bytes);
    if (prompt == NULL) {
        status = no_memory(diag, "for the prompt");
        goto done;
    }
    INLAY_TRY(inlay_text_model_chat(model, &chat, prompt, bytes, &bytes, diag));
    request->prompt = prompt;
    interrupted = 0;
    INLAY_TRY(text_work_run(model, request, prints, is_interrupted, &said, NULL, diag));
    if (prints)
        (void)printf("\n");
    INLAY_TRY(add_message(messages, "assistant", said.data != NULL ? said.data : "", said.size, diag));
    request->seed++;
done:
    free(json);
    free(prompt);
    strbuf_deinit(&said);
    return status;
}

/* Obeys a line that begins with a slash. *ends: the chat ends. */
static inlay_status obey(const char *line, json_t *messages, const char *system, bool *ends, inlay_diag *diag)
{
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
        *ends = true;
    else if (strcmp(line, "/clear") == 0)
        return begin(messages, system, diag);
    else if (strncmp(line, "/system ", 8) == 0)
        return begin(messages, line + 8, diag);
    else if (strcmp(line, "/help") == 0)
        (void)fputs(help, stderr);
    else
        (void)fprintf(stderr, "there is no command '%.60s'; the commands are:\n%s", line, help);
    return INLAY_OK;
}

/* Adds a message of the user, before the first one the marks of `images`, which are then 0. */
static inlay_status add_line(json_t *messages, const char *line, uint32_t *images, inlay_diag *diag)
{
    struct strbuf text = { 0 };
    inlay_status status;

    for (; *images > 0; (*images)--)
        strbuf_text(&text, INLAY_TEXT_IMAGE_MARK);
    strbuf_text(&text, line);
    status =
        text.failed ? no_memory(diag, "for the message") : add_message(messages, "user", text.data, text.size, diag);
    strbuf_deinit(&text);
    return status;
}

static inlay_status converse(inlay_text_model *model, inlay_text_request *request, const text_args *args, bool prints,
                             json_t *messages, inlay_diag *diag)
{
    const line_editor editor = open_editor();
    inlay_status status = begin(messages, args->system, diag);
    uint32_t images = (uint32_t)request->image_count;
    bool ends = false;
    char *line = NULL;

    while (status == INLAY_OK && !ends && (status = next_line(&editor, &line, diag)) == INLAY_OK && line != NULL) {
        if (line[0] == '/' && isatty(STDIN_FILENO))
            status = obey(line, messages, args->system, &ends, diag);
        else if (line[0] != '\0')
            status = add_line(messages, line, &images, diag);
        if (json_array_size(messages) <= (args->system != NULL)) /* forgotten, with the images */
            request->image_count = images = 0;
        if (status == INLAY_OK && line[0] != '\0' && !(line[0] == '/' && isatty(STDIN_FILENO)))
            status = answer(model, request, messages, prints, diag);
        free(line);
        line = NULL;
    }
    free(line);
    return status;
}

int cmd_chat(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_chat, options_of_chat, text_finish };
    const struct sigaction stop = { .sa_handler = interrupt };
    text_args args = TEXT_ARGS_INIT;
    struct strbuf files[2] = { { 0 } }, image_files[TEXT_IMAGES] = { { 0 } };
    inlay_text_image images[TEXT_IMAGES];
    json_t *messages = json_array();
    inlay_text_model *model = NULL;
    inlay_text_request request;
    inlay_diag diag = INLAY_DIAG_INIT;
    cli_common common;
    inlay_status status;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    INLAY_TRY(text_work_request(&args, &request, files, &diag));
    request.flags |= INLAY_TEXT_RENDERED;
    for (uint32_t i = 0; i < args.image_count; i++) {
        INLAY_TRY(text_work_bytes(args.images[i], &image_files[i], &diag));
        images[i] = (inlay_text_image){ image_files[i].data, image_files[i].size };
    }
    request.images = images;
    request.image_count = args.image_count;
    INLAY_TRY(text_work_open(&common, &args, &model, &diag));
    cli_progress_clear();
    if (!common.json)
        screen_end();
    (void)sigaction(SIGINT, &stop, NULL); /* Ctrl-C stops an answer; between answers it ends the chat */
    INLAY_TRY(converse(model, &request, &args, !common.json, messages, &diag));
    if (common.json)
        code = cli_print_json(&common, json_pack("{s:O}", "messages", messages), CLI_OK);
    if (is_interrupted())
        code = CLI_CANCELLED;
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    json_decref(messages);
    inlay_text_model_destroy(model);
    strbuf_deinit(&files[0]);
    strbuf_deinit(&files[1]);
    for (int i = 0; i < TEXT_IMAGES; i++)
        strbuf_deinit(&image_files[i]);
    cli_common_deinit(&common);
    return code;
}
