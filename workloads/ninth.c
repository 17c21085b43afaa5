/* Many threads that all write for the ninth time at once, and what each of them then reads of its own.
 *
 * usage: ninth FILE ROUNDS THREADS
 *
 * A process asks for memory to leave its writes in when it has written often. Here the threads of a process
 * come to that together, round after round in a child of its own, each with a descriptor and a part of the
 * file of its own. Each writes on, never twice at one place; all of it is then in the file. Exits 1 and says
 * where if not, 2 if it could not.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST = 8, WRITES = 200, WORDS = 16, BYTES = WORDS * sizeof(unsigned), THREADS_MAX = 64 };

static const char *path;
static pthread_barrier_t barrier;
static unsigned turn;

static void must(int well, const char *what)
{
	if (!well) {
		perror(what);
		_exit(2);
	}
}

static int open_it(void)
{
	int fd = open(path, O_RDWR);

	must(fd >= 0, path);
	return fd;
}

static void write_at(int fd, long place)
{
	unsigned words[WORDS];

	for (int i = 0; i < WORDS; i++)
		words[i] = turn;
	must(pwrite(fd, words, BYTES, place * BYTES) == BYTES, "pwrite");
}

static void expect(int fd, long place)
{
	unsigned words[WORDS];

	must(pread(fd, words, BYTES, place * BYTES) == BYTES, "pread");
	for (int i = 0; i < WORDS; i++) {
		if (words[i] != turn) {
			printf("place %ld: %u after %u was written\n", place, words[i], turn);
			fflush(stdout);
			_exit(1);
		}
	}
}

static void *writer(void *argument)
{
	long part = (long)argument;
	int fd = open_it();

	pthread_barrier_wait(&barrier);
	for (long i = 0; i < WRITES; i++)
		write_at(fd, part * WRITES + i);
	return NULL;
}

static void round_of(long threads)
{
	pthread_t made[THREADS_MAX];
	int fd = open_it();

	for (long i = 0; i < FIRST; i++)
		write_at(fd, threads * WRITES);
	/* So that nobody waits for another that maps the memory. */
	expect(fd, threads * WRITES);
	must(!pthread_barrier_init(&barrier, NULL, threads), "barrier");
	for (long i = 0; i < threads; i++)
		must(!pthread_create(&made[i], NULL, writer, (void *)i), "thread");
	for (long i = 0; i < threads; i++)
		pthread_join(made[i], NULL);
	for (long place = 0; place < threads * WRITES; place++)
		expect(fd, place);
}

int main(int argc, char **argv)
{
	must(argc == 4, "usage: ninth FILE ROUNDS THREADS");
	path = argv[1];
	long rounds = atol(argv[2]), threads = atol(argv[3]);

	must(rounds > 0 && threads > 0 && threads <= THREADS_MAX, "ROUNDS and THREADS (1 to 64)");
	for (long i = 0; i < rounds; i++) {
		int status;

		turn = i + 1;
		pid_t child = fork();

		must(child >= 0, "fork");
		if (child == 0) {
			round_of(threads);
			_exit(0);
		}
		must(waitpid(child, &status, 0) == child, "waitpid");
		if (status != 0) {
			printf("round %ld ended with %d\n", i, status);
			return 1;
		}
	}
	return 0;
}
