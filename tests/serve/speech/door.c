/* door FOLDER FILE [LANGUAGE [PROMPT]]: the transcription of a file, with times, by inlay/text.h: the language, and a
 * line for each segment. With PROMPT the text is English. */
#include "inlay/text.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const inlay_diag *diag)
{
    (void)fprintf(stderr, "%s\n", diag->text);
    return 2;
}

/* What is refused, and a transcription that is cancelled. */
static bool refuses(inlay_text_speech *speech, inlay_text_sound sound)
{
    inlay_text_transcript made = { .struct_size = sizeof made };
    inlay_text_segment segment = { .struct_size = sizeof segment };
    static const uint32_t set = 1;
    inlay_diag diag = INLAY_DIAG_INIT;
    bool good;

    sound.cancel = &set;
    good = inlay_text_speech_transcribe(speech, &sound, &made, &diag) == INLAY_CANCELLED;
    sound.cancel = NULL;
    sound.temperature = 2;
    good &= inlay_text_speech_transcribe(speech, &sound, &made, &diag) == INLAY_INVALID_ARGUMENT;
    sound.temperature = 0;
    sound.struct_size = 0;
    good &= inlay_text_speech_transcribe(speech, &sound, &made, &diag) == INLAY_INVALID_ARGUMENT;
    return good && inlay_text_speech_segment(speech, 0, &segment, &diag) == INLAY_NOT_FOUND;
}

int main(int argc, char **argv)
{
    inlay_text_sound sound = { .struct_size = sizeof sound, .has_times = 1 };
    inlay_text_transcript made = { .struct_size = sizeof made };
    inlay_text_segment segment = { .struct_size = sizeof segment };
    inlay_text_speech *speech = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    static char file[1 << 24];
    FILE *opened = argc > 2 ? fopen(argv[2], "rb") : NULL;

    if (opened == NULL)
        return 1;
    sound.file = file;
    sound.bytes = fread(file, 1, sizeof file, opened);
    sound.language = argc > 3 ? argv[3] : NULL;
    sound.prompt = argc > 4 ? argv[4] : NULL;
    sound.translates = argc > 4;
    (void)fclose(opened);
    if (inlay_text_speech_create(argv[1], NULL, NULL, &speech, &diag) != INLAY_OK)
        return fail(&diag);
    for (int i = 0; i < 2; i++) /* the second one is that of a model that was used */
        if (inlay_text_speech_transcribe(speech, &sound, &made, &diag) != INLAY_OK) {
            inlay_text_speech_destroy(speech);
            return fail(&diag);
        }
    if (strlen(made.text) != made.text_bytes)
        return 3;
    printf("%s %.3f %s\n", made.language, made.seconds, made.text);
    for (uint64_t i = 0; i < made.segment_count; i++) {
        if (inlay_text_speech_segment(speech, i, &segment, &diag) != INLAY_OK)
            return fail(&diag);
        if (strlen(segment.text) != segment.text_bytes)
            return 3;
        printf("%.2f %.2f %.3f %.3f", segment.begin, segment.end, segment.logprob, segment.no_speech);
        for (uint64_t k = 0; k < segment.token_count; k++)
            printf("%c%" PRId64, k > 0 ? ',' : ' ', segment.tokens[k]);
        printf(" %s\n", segment.text);
    }
    if (!refuses(speech, sound))
        return 4;
    inlay_text_speech_destroy(speech);
    return 0;
}
