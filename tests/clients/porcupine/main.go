// A second opinion on histories that clients wrote down: porcupine's model checker instead of the project's own.
//
//	judge [-minutes 10] FILE...
//
// The lines are those that `shorttail sim judge` reads (crates/sim/src/lines.rs). An operation of unknown outcome returns after
// everything else, with any answer; one that was refused is left out, as it must not have happened.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type input struct{ action, value string }

type output struct {
	answer    string
	isUnknown bool
}

// A key is a register that may be absent: its state is its value as lines have it, or absent.
const absent = "-"

// Bytes of a value: those that lines do not take have three letters.
func length(value string) string {
	return strconv.Itoa(len(value) - 2*strings.Count(value, "%"))
}

// What a number becomes, and what is said of it; text stays what it is.
func add(value, delta string) (string, string) {
	number, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return value, "text"
	}
	more, _ := strconv.ParseUint(delta, 10, 64)
	sum := strconv.FormatUint(number+more, 10)
	return sum, sum
}

func step(state, in, out interface{}) (bool, interface{}) {
	value, asked, told := state.(string), in.(input), out.(output)
	is := func(answer string) bool { return told.isUnknown || told.answer == answer }
	switch asked.action {
	case "replace", "append", "incr", "touch", "cas":
		if value == absent {
			return is("absent"), absent
		}
	}
	switch asked.action {
	case "get":
		return is(value), value
	case "set", "replace":
		return asked.action == "set" || is("stored"), asked.value
	case "append":
		return is("stored"), value + asked.value
	case "extend":
		value = strings.TrimPrefix(value, absent) + asked.value
		return is(length(value)), value
	case "cas":
		expected, next, _ := strings.Cut(asked.value, ">")
		if value != expected {
			return is("differs"), value
		}
		return is("stored"), next
	case "incr", "count":
		if value == absent {
			value = "0"
		}
		sum, answer := add(value, asked.value)
		return is(answer), sum
	case "touch":
		return is("touched"), value
	case "clear":
		return true, absent
	case "add":
		if value == absent {
			return is("stored"), asked.value
		}
		return is("exists"), value
	case "delete":
		if value == absent {
			return is("absent"), absent
		}
		return is("deleted"), absent
	}
	return false, value
}

var model = porcupine.Model{
	Init:  func() interface{} { return absent },
	Step:  step,
	Equal: func(one, other interface{}) bool { return one == other },
}

func read(path string, keys map[string][]porcupine.Operation) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		words := strings.Split(lines.Text(), "\t")
		if len(words) != 8 {
			return fmt.Errorf("%s:%d: %d words instead of 8", path, number, len(words))
		}
		client, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		called, err := strconv.ParseInt(words[4], 10, 64)
		if err != nil {
			return err
		}
		told, returned := output{answer: words[7]}, int64(math.MaxInt64)
		switch words[6] {
		case "refused":
			continue
		case "unknown":
			if words[2] == "get" {
				continue
			}
			told.isUnknown = true
		default:
			if returned, err = strconv.ParseInt(words[5], 10, 64); err != nil {
				return err
			}
		}
		keys[words[0]] = append(keys[words[0]], porcupine.Operation{
			ClientId: client, Input: input{words[2], words[3]}, Call: called, Output: told, Return: returned,
		})
	}
	return lines.Err()
}

func main() {
	minutes := flag.Float64("minutes", 10, "for all keys together")
	flag.Parse()
	keys, count := map[string][]porcupine.Operation{}, 0
	for _, path := range flag.Args() {
		if err := read(path, keys); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	deadline, wrong, open := time.Now().Add(time.Duration(*minutes*float64(time.Minute))), 0, 0
	for key, operations := range keys {
		count += len(operations)
		left := time.Until(deadline)
		if left <= 0 {
			open++
			continue
		}
		switch porcupine.CheckOperationsTimeout(model, operations, left) {
		case porcupine.Illegal:
			fmt.Printf("key %s is not linearizable\n", key)
			wrong++
		case porcupine.Unknown:
			open++
		}
	}
	fmt.Printf("porcupine: %d operations on %d keys, %d keys not linearizable, %d not judged in time\n", count, len(keys), wrong, open)
	if wrong > 0 || open > 0 {
		os.Exit(1)
	}
}
