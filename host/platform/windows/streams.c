/* open_memstream(), over a temporary file that the system deletes, and getline(). */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory_stream {
    FILE *file;
    char **out_text;
    size_t *out_bytes;
    struct memory_stream *next;
};

static struct memory_stream *streams;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

/* The link to the stream of a file, or to NULL. The lock is held. */
static struct memory_stream **find_stream(const FILE *file)
{
    struct memory_stream **link = &streams;

    while (*link != NULL && (*link)->file != file)
        link = &(*link)->next;
    return link;
}

FILE *open_memstream(char **out_text, size_t *out_bytes)
{
    struct memory_stream *stream = malloc(sizeof *stream);
    const int fd = stream != NULL ? memfd_create("stream", MFD_CLOEXEC) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "w+b") : NULL;

    if (file == NULL) {
        if (fd >= 0)
            (void)close(fd);
        free(stream);
        return NULL;
    }
    *out_text = NULL;
    *out_bytes = 0;
    *stream = (struct memory_stream){ .file = file, .out_text = out_text, .out_bytes = out_bytes };
    (void)pthread_mutex_lock(&streams_lock);
    stream->next = streams;
    streams = stream;
    (void)pthread_mutex_unlock(&streams_lock);
    return file;
}

/* Copies the file's bytes, and a NUL behind them, to the memory of the stream. */
static int read_back(const struct memory_stream *stream)
{
    const long at = (fflush)(stream->file) == 0 ? ftell(stream->file) : -1;
    char *text = at >= 0 ? realloc(*stream->out_text, (size_t)at + 1) : NULL;

    if (text == NULL)
        return EOF;
    *stream->out_text = text;
    rewind(stream->file);
    if (fread(text, 1, (size_t)at, stream->file) != (size_t)at || fseek(stream->file, at, SEEK_SET) != 0)
        return EOF;
    text[at] = '\0';
    *stream->out_bytes = (size_t)at;
    return 0;
}

int platform_fflush(FILE *file)
{
    struct memory_stream *stream;

    (void)pthread_mutex_lock(&streams_lock);
    stream = *find_stream(file);
    (void)pthread_mutex_unlock(&streams_lock);
    return stream != NULL ? read_back(stream) : (fflush)(file);
}

int platform_fclose(FILE *file)
{
    struct memory_stream *stream, **link;
    int result = 0;

    (void)pthread_mutex_lock(&streams_lock);
    link = find_stream(file);
    stream = *link;
    if (stream != NULL)
        *link = stream->next;
    (void)pthread_mutex_unlock(&streams_lock);
    if (stream != NULL)
        result = read_back(stream);
    free(stream);
    return (fclose)(file) == 0 ? result : EOF;
}

ssize_t getline(char **line, size_t *capacity, FILE *file)
{
    size_t bytes = 0;
    int letter;

    do {
        letter = getc(file);
        if (letter == EOF && (bytes == 0 || ferror(file)))
            return -1;
        if (bytes + 2 > *capacity) {
            const size_t room = *capacity < 60 ? 120 : 2 * *capacity;
            char *grown = realloc(*line, room);

            if (grown == NULL)
                return -1;
            *line = grown;
            *capacity = room;
        }
        if (letter != EOF)
            (*line)[bytes++] = (char)letter;
    } while (letter != EOF && letter != '\n');
    (*line)[bytes] = '\0';
    return (ssize_t)bytes;
}
