#include "plugin/folder.h"
#include "base/among.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/version.h"
#include "plugin/note_memo.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_library(const struct dirent *entry)
{
    size_t bytes = strlen(entry->d_name);

    return entry->d_name[0] != '.' && bytes >= sizeof LIBRARY_SUFFIX &&
           strcmp(entry->d_name + bytes - (sizeof LIBRARY_SUFFIX - 1), LIBRARY_SUFFIX) == 0;
}

/* By bytes, not by the locale: the order must not depend on the user's environment. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* The facts of the file's note; NULL: it has none, or memory ran out. The file is fully checked when it is loaded;
 * here it only gets its place. */
static note_facts *read_facts(const char *dir, const char *name)
{
    char path[PATH_MAX + NAME_MAX + 2];
    note_facts *facts = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct stat st;
    bool is_known;
    int fd = -1;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) /* opening a device could have effects */
        return NULL;
    facts = malloc(sizeof *facts);
    is_known = facts != NULL && note_recall(&st, facts);
    if (facts != NULL && !is_known)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        is_known = note_read_once(fd, &st, facts, &diag) == INLAY_OK;
    if (facts != NULL && (!is_known || !facts->present)) {
        free(facts);
        facts = NULL;
    }
    if (fd >= 0)
        (void)close(fd);
    return facts;
}

/* Have the notes the same plugin name, or a provider in common? */
static bool notes_clash(const note_facts *a, const note_facts *b)
{
    char word[NOTE_TEXT_BYTES];

    if (a->name[0] != '\0' && strcmp(a->name, b->name) == 0)
        return true;
    for (const char *at = a->providers + strspn(a->providers, " "); *at != '\0'; at += strspn(at, " ")) {
        const size_t bytes = strcspn(at, " ");

        memcpy(word, at, bytes);
        word[bytes] = '\0';
        if (is_among(word, b->providers))
            return true;
        at += bytes;
    }
    return false;
}

/* The place of a file among the files before it: ahead of the first file with a lower version with which it clashes. */
static uint32_t place_of(const note_facts *facts, note_facts *const *placed, uint32_t count)
{
    for (uint32_t i = 0; facts != NULL && i < count; i++)
        if (placed[i] != NULL && notes_clash(facts, placed[i]) &&
            version_compare(facts->version, placed[i]->version) > 0)
            return i;
    return count;
}

inlay_status folder_list_init(folder_list *list, const char *dir, const char *shown, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;
    note_facts **placed = NULL;
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, is_library, by_name);

    *list = (folder_list){ 0 };
    if (count < 0)
        return inlay_fail(diag, INLAY_IO_ERROR, "plugin directory '%s': %s", shown, strerror(errno));
    list->names = calloc((size_t)count + 1, sizeof *list->names);
    placed = calloc((size_t)count + 1, sizeof *placed);
    if (list->names == NULL || placed == NULL)
        status = no_memory(diag, "for the list of plugins");
    for (int i = 0; i < count && status == INLAY_OK; i++) {
        note_facts *facts = read_facts(dir, entries[i]->d_name);
        char *name = strdup(entries[i]->d_name);
        const uint32_t place = place_of(facts, placed, list->count), later = list->count - place;

        memmove(list->names + place + 1, list->names + place, later * sizeof *list->names);
        memmove(placed + place + 1, placed + place, later * sizeof(note_facts *));
        list->names[place] = name;
        placed[place] = facts;
        list->count++;
        if (name == NULL)
            status = no_memory(diag, "for the list of plugins");
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    for (uint32_t i = 0; placed != NULL && i < list->count; i++)
        free(placed[i]);
    free(placed);
    if (status != INLAY_OK)
        folder_list_deinit(list);
    return status;
}

void folder_list_deinit(folder_list *list)
{
    for (uint32_t i = 0; list->names != NULL && i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    *list = (folder_list){ 0 };
}
