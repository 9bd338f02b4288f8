#include "check/process.h"
#include "base/clock.h"
#include "inlay/check.h"
#include "probe/process_snapshot.h"
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int count = 0;

    if (dir == NULL)
        return -1;
    while ((entry = readdir(dir)) != NULL)
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

process_state process_read_state(void)
{
    process_state state = { .threads = process_snapshot_threads(),
                            .files = count_entries("/proc/self/fd"),
                            .resident_kb = -1,
                            .mapped_kb = -1 };
    FILE *file = fopen("/proc/self/statm", "re");
    const long page_kb = sysconf(_SC_PAGESIZE) / 1024;
    long pages, mapped;

    if (file != NULL) {
        if (fscanf(file, "%ld %ld", &mapped, &pages) == 2) {
            state.resident_kb = pages * page_kb;
            state.mapped_kb = mapped * page_kb;
        }
        (void)fclose(file);
    }
    return state;
}

process_state process_read_settled(const process_state *before)
{
    (void)process_snapshot_more_threads(before->threads);
    return process_read_state();
}

/* The time that a thread was ready to run but had no CPU; 0 if the kernel does not count it, or the thread is gone. */
static double waited_ms(const char *thread)
{
    char path[64];
    unsigned long long ran, waited = 0;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", thread);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu %llu", &ran, &waited) != 2)
        waited = 0;
    (void)fclose(file);
    return (double)waited * 1e-6;
}

/* The time that all threads waited. It takes a file for each thread, so a reading serves for some milliseconds. */
static double all_waited_ms(double now)
{
    enum { FRESH_MS = 5 };
    static _Thread_local double read_at, waited;
    struct dirent *entry;
    DIR *dir;

    if (read_at > 0 && now - read_at < FRESH_MS)
        return waited;
    read_at = now;
    waited = 0;
    dir = opendir("/proc/self/task");
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.')
            waited += waited_ms(entry->d_name);
    if (dir != NULL)
        (void)closedir(dir);
    return waited;
}

process_clock process_clock_start(void)
{
    const double now = clock_ms();

    return (process_clock){ clock_cpu_ms(), now - all_waited_ms(now) };
}

double process_clock_ms(const process_clock *start)
{
    const process_clock now = process_clock_start();
    const double cpu_ms = now.cpu_ms - start->cpu_ms, idle_ms = now.idle_ms - start->idle_ms;

    return cpu_ms > idle_ms ? cpu_ms : idle_ms;
}

uint32_t process_take_files(char *names, size_t bytes)
{
    DIR *dir = opendir(".");
    struct dirent *entry;
    uint32_t count = 0;

    INLAY_CHECK(bytes > 0);
    names[0] = '\0';
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        const size_t used = strlen(names);

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        (void)snprintf(names + used, bytes - used, "%s%s", count > 0 ? ", " : "", entry->d_name);
        count++;
        (void)remove(entry->d_name); /* a folder with files stays until the parent removes everything */
    }
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

bool process_has_mapped(const char *path)
{
    FILE *file = fopen("/proc/self/maps", "re");
    char line[4400];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
        found = strstr(line, path) != NULL;
    if (file != NULL)
        (void)fclose(file);
    return found;
}

/* Symbols of sanitizers come from their runtime, which the executable may contain. */
static bool is_sanitizer(const char *name)
{
    static const char *const prefixes[] = { "__asan", "__ubsan", "__lsan", "__tsan", "__msan", "__sanitizer" };

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* Calls fn for each dynamic symbol that is not local, until it returns false. */
typedef bool (*symbol_fn)(void *user, const GElf_Sym *symbol, const char *name);

static void each_symbol(const char *path, symbol_fn fn, void *user)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf *elf = fd >= 0 && elf_version(EV_CURRENT) != EV_NONE ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
    Elf_Scn *section = NULL;
    bool more = true;
    GElf_Shdr header;

    while (elf != NULL && more && (section = elf_nextscn(elf, section)) != NULL) {
        Elf_Data *data;

        if (gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_DYNSYM || header.sh_entsize == 0)
            continue;
        data = elf_getdata(section, NULL);
        for (size_t i = 1; data != NULL && more && i < header.sh_size / header.sh_entsize; i++) {
            GElf_Sym symbol;
            const char *name =
                gelf_getsym(data, (int)i, &symbol) != NULL ? elf_strptr(elf, header.sh_link, symbol.st_name) : NULL;

            if (name != NULL && name[0] != '\0' && GELF_ST_BIND(symbol.st_info) != STB_LOCAL)
                more = fn(user, &symbol, name);
        }
    }
    if (elf != NULL)
        (void)elf_end(elf);
    if (fd >= 0)
        (void)close(fd);
}

struct undefined {
    void *handle;
    char *names; /* [bytes] */
    size_t bytes;
    uint32_t count;
};

/* Weak symbols may be undefined. dlsym() with a handle searches the file and its DT_NEEDED libraries. */
static bool add_undefined(void *user, const GElf_Sym *symbol, const char *name)
{
    struct undefined *list = user;
    const size_t used = strlen(list->names);

    if (symbol->st_shndx != SHN_UNDEF || GELF_ST_BIND(symbol->st_info) != STB_GLOBAL || is_sanitizer(name) ||
        dlsym(list->handle, name) != NULL)
        return true;
    list->count++;
    if (used + strlen(name) + 3 < list->bytes)
        (void)snprintf(list->names + used, list->bytes - used, "%s%s", used > 0 ? ", " : "", name);
    return true;
}

uint32_t process_undefined(const char *path, void *handle, char *names, size_t bytes)
{
    struct undefined list = { handle, names, bytes, 0 };

    INLAY_CHECK(bytes > 0);
    names[0] = '\0';
    each_symbol(path, add_undefined, &list);
    return list.count;
}

struct wanted {
    const char *name;
    bool imported, found;
};

static bool compare_symbol(void *user, const GElf_Sym *symbol, const char *name)
{
    struct wanted *wanted = user;

    wanted->found = (symbol->st_shndx == SHN_UNDEF) == wanted->imported && strcmp(name, wanted->name) == 0 &&
                    (!wanted->imported || GELF_ST_BIND(symbol->st_info) == STB_GLOBAL);
    return !wanted->found;
}

bool process_imports(const char *path, const char *function)
{
    struct wanted wanted = { function, true, false };

    each_symbol(path, compare_symbol, &wanted);
    return wanted.found;
}

bool process_exports(const char *path, const char *function)
{
    struct wanted wanted = { function, false, false };

    each_symbol(path, compare_symbol, &wanted);
    return wanted.found;
}

/* Section .comment has the names of the compilers. */
static bool has_comment(Elf *elf, const char *compiler)
{
    Elf_Scn *section = NULL;
    size_t names;
    GElf_Shdr header;
    bool found = false;

    if (elf_getshdrstrndx(elf, &names) != 0)
        return false;
    while (!found && (section = elf_nextscn(elf, section)) != NULL) {
        const char *name = gelf_getshdr(section, &header) != NULL ? elf_strptr(elf, names, header.sh_name) : NULL;
        const Elf_Data *data = name != NULL && strcmp(name, ".comment") == 0 ? elf_rawdata(section, NULL) : NULL;

        found = data != NULL && data->d_buf != NULL &&
                memmem(data->d_buf, data->d_size, compiler, strlen(compiler)) != NULL;
    }
    return found;
}

bool process_is_rust(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf *elf = NULL;
    bool found = false;

    if (fd >= 0 && elf_version(EV_CURRENT) != EV_NONE && (elf = elf_begin(fd, ELF_C_READ, NULL)) != NULL)
        found = has_comment(elf, "rustc version");
    if (elf != NULL)
        (void)elf_end(elf);
    if (fd >= 0)
        (void)close(fd);
    return found;
}
