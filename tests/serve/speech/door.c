/* door FOLDER FILE [LANGUAGE]: the transcription of a file, with times, by inlay/text.h: the language, and a line for
 * each segment. */
#include "inlay/text.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const inlay_diag *diag)
{
    (void)fprintf(stderr, "%s\n", diag->text);
    return 2;
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
    (void)fclose(opened);
    if (inlay_text_speech_create(argv[1], NULL, NULL, &speech, &diag) != INLAY_OK)
        return fail(&diag);
    for (int i = 0; i < 2; i++) /* the second one is that of a model that was used */
        if (inlay_text_speech_transcribe(speech, &sound, &made, &diag) != INLAY_OK) {
            inlay_text_speech_destroy(speech);
            return fail(&diag);
        }
    printf("%s %.3f %s\n", made.language, made.seconds, made.text);
    for (uint64_t i = 0; i < made.segment_count; i++) {
        if (inlay_text_speech_segment(speech, i, &segment, &diag) != INLAY_OK)
            return fail(&diag);
        printf("%.2f %.2f %" PRIu64 " %s\n", segment.begin, segment.end, segment.token_count, segment.text);
    }
    if (inlay_text_speech_segment(speech, made.segment_count, &segment, &diag) != INLAY_NOT_FOUND)
        return 3;
    inlay_text_speech_destroy(speech);
    return 0;
}
