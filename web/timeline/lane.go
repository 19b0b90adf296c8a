package timeline

import (
	"slices"

	"auditor/event"
	"auditor/event/history"
)

const (
	labelWidth = 172 // of the column of workers' names in a wide drawing
	fadeWidth  = 52  // room at the right for a run that fades out
	axisHeight = 30
	rowHeight  = 54
	nameHeight = 20 // of the line above a lane that holds its name in a narrow drawing
	barTop     = 20 // below a row's top
	barHeight  = 12
	mostLanes  = 24
)

// lane holds the runs of one worker, in as many rows as it takes that none covers another.
type lane struct {
	name string
	heap bool // the lane holds runs of several workers, for there are too many to give each its own
	rows [][]*history.Run
	top  float64
}

func (l lane) height(narrow bool) float64 {
	height := float64(rowHeight * len(l.rows))
	if narrow {
		height += nameHeight
	}
	return height
}

// layOut gives each worker a lane, in the order in which they appear, below the axis and the lane of publications.
func layOut(runs []*history.Run, narrow bool) []lane {
	var names []string
	for _, r := range runs {
		if !slices.Contains(names, r.Worker) {
			names = append(names, r.Worker)
		}
	}
	heap := len(names) > mostLanes
	var lanes []lane
	for _, r := range runs {
		name := r.Worker
		if heap {
			name = ""
		}
		i := slices.IndexFunc(lanes, func(l lane) bool { return l.name == name })
		if i < 0 {
			i = len(lanes)
			lanes = append(lanes, lane{name: name, heap: heap})
		}
		lanes[i].add(r)
	}
	return lanes
}

// add puts a run into the first row that is free when it begins.
func (l *lane) add(r *history.Run) {
	for i, row := range l.rows {
		if !alive(row[len(row)-1]).to.After(r.Begin()) {
			l.rows[i] = append(row, r)
			return
		}
	}
	l.rows = append(l.rows, []*history.Run{r})
}

// rowOf says where a run is drawn: the top of its row.
func (t *Timeline) rowOf(r *history.Run) (top float64, ok bool) {
	for _, l := range t.lanes {
		for i, row := range l.rows {
			if slices.Contains(row, r) {
				top = l.top + float64(i*rowHeight)
				if t.narrow() {
					top += nameHeight
				}
				return top, true
			}
		}
	}
	return 0, false
}

// sent are the publications that are drawn: all of them, unless the runs are drawn as a summary.
func (t *Timeline) sent() []*event.Event {
	const most = 60
	if _, _, left := t.Summary(); left {
		return nil
	}
	return t.history.Sent[:min(len(t.history.Sent), most)]
}

// place sets each lane's top and gives the height of the drawing.
func (t *Timeline) place() float64 {
	top := float64(axisHeight)
	if len(t.sent()) > 0 {
		top += t.sentHeight()
	}
	for i := range t.lanes {
		t.lanes[i].top = top
		top += t.lanes[i].height(t.narrow())
	}
	return top + 22
}

func (t *Timeline) sentHeight() float64 {
	if t.narrow() {
		return 44
	}
	return 30
}
