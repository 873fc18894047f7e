/* terminal.c - runs a command on a terminal and prints what stands on it in the end:
 *
 *     terminal COLUMNS ROWS WORD command arguments ...
 *
 * WORD: once the command has written it, ^C is typed ("": never). The terminal knows what the
 * command may use: carriage return, newline, going up, clearing to the end of line and screen,
 * colours. Anything else, and a line that does not fit, ends the test: exit 3 and 4. */
#define _XOPEN_SOURCE 600
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { LINES = 400, WIDTH = 256, CELL = 5 };
static char screen[LINES][WIDTH][CELL]; /* a character of UTF-8 each; "": nothing was written */
static int row, column, last, columns;

static void print_row(FILE *to, int r)
{
    int end = WIDTH;
    while (end > 0 && !screen[r][end - 1][0])
        end--;
    for (int c = 0; c < end; c++)
        fputs(screen[r][c][0] ? screen[r][c] : " ", to);
    fputc('\n', to);
}

static void die(int code, const char *why)
{
    fprintf(stderr, "terminal: %s in row %d: ", why, row);
    print_row(stderr, row);
    exit(code);
}

/* A whole escape sequence, or 0 when more bytes are needed. */
static size_t escape(const char *p, size_t n)
{
    size_t i = 2;
    int number = 0;
    if (n < 3)
        return 0;
    while (i < n && p[i] >= '0' && p[i] <= '9')
        number = 10 * number + p[i++] - '0';
    if (i == n)
        return 0;
    if (p[1] != '[')
        die(3, "an escape that is not CSI");
    if (p[i] == 'A') {
        if (number > row)
            die(3, "above the first line");
        row -= number;
    } else if (p[i] == 'K' || p[i] == 'J') {
        memset(screen[row][column], 0, (size_t)(WIDTH - column) * CELL);
        for (int r = row + 1; p[i] == 'J' && r <= last; r++)
            memset(screen[r], 0, sizeof screen[r]);
    } else if (p[i] != 'm') {
        die(3, "an unknown escape");
    }
    return i + 1;
}

static size_t character(const char *p, size_t n)
{
    unsigned char c = (unsigned char)*p;
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (c == '\r') {
        column = 0;
        return 1;
    }
    if (c == '\n') {
        row++;
        last = row > last ? row : last;
        column = 0;
        if (row == LINES)
            die(3, "too many lines");
        return 1;
    }
    if (c < 32)
        die(3, "a control character");
    if (n < len)
        return 0;
    if (column == columns || column == WIDTH)
        die(4, "a line that does not fit");
    memset(screen[row][column], 0, CELL);
    memcpy(screen[row][column++], p, len);
    return len;
}

static size_t feed(const char *p, size_t n)
{
    size_t done = 0, step = 1;
    while (done < n && step) {
        step = p[done] == '\033' ? escape(p + done, n - done) : character(p + done, n - done);
        done += step;
    }
    return done;
}

static int run(int master, pid_t child, const char *word)
{
    static char bytes[65536], seen[1 << 22];
    size_t left = 0, total = 0;
    int typed = !*word, code;
    for (ssize_t n; (n = read(master, bytes + left, sizeof bytes - left)) > 0;) {
        if (total + (size_t)n < sizeof seen) {
            memcpy(seen + total, bytes + left, (size_t)n);
            total += (size_t)n;
        }
        if (!typed && strstr(seen, word))
            typed = write(master, "\003", 1) == 1;
        left += (size_t)n;
        size_t done = feed(bytes, left);
        memmove(bytes, bytes + done, left -= done);
    }
    waitpid(child, &code, 0);
    return WIFEXITED(code) ? WEXITSTATUS(code) : 128 + WTERMSIG(code);
}

int main(int argc, char **argv)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (argc < 5 || master < 0 || grantpt(master) || unlockpt(master))
        return 77;
    columns = atoi(argv[1]);
    struct winsize size = {(unsigned short)atoi(argv[2]), (unsigned short)columns, 0, 0};
    pid_t child = fork();
    if (child == 0) {
        struct termios mode;
        setsid();
        int slave = open(ptsname(master), O_RDWR);
        if (tcgetattr(slave, &mode) == 0) {
            mode.c_lflag &= ~(tcflag_t)(ECHO | ECHOCTL); /* ^C is not shown */
            mode.c_lflag |= NOFLSH; /* ^C throws away no output that is still to be read */
            mode.c_oflag &= ~(tcflag_t)OPOST;            /* a newline stays one byte */
            tcsetattr(slave, TCSANOW, &mode);
        }
        ioctl(slave, TIOCSCTTY, 0);
        ioctl(slave, TIOCSWINSZ, &size);
        dup2(slave, 0);
        dup2(slave, 1);
        dup2(slave, 2);
        execvp(argv[4], argv + 4);
        _exit(127);
    }
    int code = run(master, child, argv[3]);
    for (int r = 0; r < last; r++)
        print_row(stdout, r);
    if (screen[last][0][0])
        die(3, "the last line is not ended");
    return code;
}
