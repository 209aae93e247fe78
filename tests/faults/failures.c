/* A library to preload: the n-th operation on files below a folder fails, or the n-th allocation. Python arms it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096];
static int nth, error, sticky;
static volatile int count, allocation, allocations;

/* From now on the n-th operation below `below` fails with the error; with `forever`, each later one, too. */
void fail_operation(const char *below, int n, int with, int forever) {
    snprintf(folder, sizeof folder, "%s", below);
    nth = n, error = with, sticky = forever, count = 0;
}

/* From now on the n-th allocation fails. 0 stops counting. */
void fail_allocation(int n) { allocations = 0, allocation = n; }

int operations_counted(void) { return count; }
int allocations_counted(void) { return allocations; }

static int fails(const char *path) {
    if (!nth || strncmp(path, folder, strlen(folder))) return 0;
    ++count;
    if (count != nth && !(sticky && count > nth)) return 0;
    errno = error;
    return 1;
}

static int fails_at(int descriptor) {
    char link[64], path[4096];
    if (!nth) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return fails(path);
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define ON_FILE(type, name, parameters, arguments) \
    type name parameters { REAL(name); return fails_at(descriptor) ? -1 : real arguments; }
#define ON_PATH(type, name, parameters, arguments) \
    type name parameters { REAL(name); return fails(path) ? -1 : real arguments; }

ON_FILE(ssize_t, write, (int descriptor, const void *data, size_t size), (descriptor, data, size))
ON_FILE(ssize_t, pwrite64, (int descriptor, const void *data, size_t size, off64_t at), (descriptor, data, size, at))
ON_FILE(ssize_t, writev, (int descriptor, const struct iovec *data, int parts), (descriptor, data, parts))
ON_FILE(int, fsync, (int descriptor), (descriptor))
ON_FILE(int, ftruncate64, (int descriptor, off64_t size), (descriptor, size))
ON_PATH(int, mkdir, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, rename, (const char *path, const char *to), (path, to))

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return (flags & (O_CREAT | O_WRONLY | O_RDWR)) && fails(path) ? -1 : real(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)

/* The C library's own streams do not call `write` above. */
size_t fwrite(const void *data, size_t size, size_t items, FILE *stream) {
    REAL(fwrite);
    return fails_at(fileno(stream)) ? 0 : real(data, size, items, stream);
}

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static int no_memory(void) {
    if (!allocation || ++allocations != allocation) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return no_memory() ? NULL : __libc_malloc(size); }
void *calloc(size_t items, size_t size) { return no_memory() ? NULL : __libc_calloc(items, size); }
void *realloc(void *old, size_t size) { return no_memory() ? NULL : __libc_realloc(old, size); }
void *aligned_alloc(size_t alignment, size_t size) { return no_memory() ? NULL : __libc_memalign(alignment, size); }
int posix_memalign(void **found, size_t alignment, size_t size) {
    if (no_memory()) return ENOMEM;
    *found = __libc_memalign(alignment, size);
    return *found ? 0 : ENOMEM;
}
