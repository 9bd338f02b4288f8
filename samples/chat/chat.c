/* chat - a chat with a language model:
 *     chat MODEL     MODEL: an .onnx or .gguf file, or a folder as Hugging Face publishes it
 * Each line of standard input is a message; the answers go to standard output as they are generated. */
#include <inlay/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 200, BYTES = 1 << 20 };

static char prompt[BYTES], answers[BYTES], lines[MESSAGES][4096];

int main(int argc, char **argv)
{
    inlay_text_message messages[MESSAGES];
    inlay_text_chat chat = { .struct_size = sizeof chat, .messages = messages };
    inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    inlay_text_options how = { .struct_size = sizeof how };
    inlay_text_model *model = NULL;
    size_t used = 0, bytes;

    if (argc != 2 || inlay_options_create(&options, &diag) != INLAY_OK ||
        inlay_options_load_environment(options, &diag) != INLAY_OK) /* INLAY_INTRA_THREADS, INLAY_PLUGIN_DIRS ... */
        return fprintf(stderr, "%s\n", argc == 2 ? diag.text : "usage: chat MODEL"), EXIT_FAILURE;
    how.options = options;
    if (inlay_text_model_create(argv[1], &how, &model, &diag) != INLAY_OK)
        return fprintf(stderr, "%s\n", diag.text), EXIT_FAILURE;
    inlay_options_destroy(options);
    while (chat.message_count < MESSAGES && fgets(lines[chat.message_count], sizeof lines[0], stdin) != NULL) {
        char *line = lines[chat.message_count], *answer = answers + used;
        inlay_text *text = NULL;
        uint32_t running;

        line[strcspn(line, "\n")] = '\0';
        messages[chat.message_count++] = (inlay_text_message){ "user", line };
        request.prompt = prompt;
        request.flags = INLAY_TEXT_RENDERED;
        if (inlay_text_model_chat(model, &chat, prompt, sizeof prompt, &bytes, &diag) != INLAY_OK ||
            inlay_text_create(model, &request, &text, &diag) != INLAY_OK)
            break;
        do {
            const char *piece;

            running = inlay_text_model_step(model);
            if (inlay_text_take(text, &piece, &bytes, &diag) != INLAY_OK || used + bytes + 2 > sizeof answers)
                break;
            printf("%s", piece);
            (void)fflush(stdout);
            memcpy(answers + used, piece, bytes);
            used += bytes;
        } while (running > 0);
        printf("\n");
        answers[used++] = '\0';
        messages[chat.message_count++] = (inlay_text_message){ "assistant", answer };
        inlay_text_destroy(text);
    }
    inlay_text_model_destroy(model);
    if (diag.code != INLAY_OK)
        fprintf(stderr, "%s\n", diag.text);
    return diag.code == INLAY_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
