// The theme searches in a Worker, which browsers refuse to a page that was opened as a file. There a hidden frame
// takes the Worker's place: same messages, same thread as the page. The file's name tells Material's `offline`
// plugin that there is no need to fetch its own.
"use strict";

if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      // Nobody but the script in the frame says postMessage there: that is how it answers.
      frame.srcdoc = `<!doctype html><script>
        const answer = new EventTarget();
        postMessage = (data) => answer.dispatchEvent(new MessageEvent("message", { data }));
      </script><script src="${new URL(url, document.baseURI)}"></script>`;
      this.ready = new Promise((resolve) => {
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow;
          inside.eval("answer").addEventListener("message", (event) =>
            this.dispatchEvent(new MessageEvent("message", { data: event.data })),
          );
          resolve(inside);
        });
      });
      document.body.append(frame);
    }

    async postMessage(data) {
      const inside = await this.ready;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }
  };
}
